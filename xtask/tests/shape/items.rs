//! Functions and their lengths; types and the files of their methods.

use crate::modules::{Root, is_test};
use std::collections::{BTreeMap, BTreeSet};
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::{Block, ImplItemFn, Item, ItemFn, ItemImpl, ItemMod, Signature, TraitItemFn, Type};

/// The functions of a file, without tests: the name, with its type's if it has one, and the lines from `fn`
/// to the last brace.
pub(crate) fn functions(syntax: &syn::File) -> Vec<(String, usize)> {
    let mut functions = Functions::default();
    functions.visit_file(syntax);
    functions.found
}

#[derive(Default)]
struct Functions {
    of_type: Option<String>,
    found: Vec<(String, usize)>,
}

impl Functions {
    fn take_in(&mut self, signature: &Signature, block: &Block) {
        let lines = block.span().end().line - signature.span().start().line + 1;
        let name = match &self.of_type {
            Some(of_type) => format!("{of_type}::{}", signature.ident),
            None => signature.ident.to_string(),
        };
        self.found.push((name, lines));
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !is_test(&item.attrs) {
            syn::visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        let outer = std::mem::replace(&mut self.of_type, type_name(&item.self_ty));
        syn::visit::visit_item_impl(self, item);
        self.of_type = outer;
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        if !is_test(&item.attrs) {
            self.take_in(&item.sig, &item.block);
            syn::visit::visit_item_fn(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.take_in(&item.sig, &item.block);
        syn::visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        if let Some(block) = &item.default {
            self.take_in(&item.sig, block);
        }
    }
}

/// For each type the files with methods of it, without those of traits. Names that several files define are
/// left out.
pub(crate) fn method_files(root: &Root) -> BTreeMap<String, BTreeSet<String>> {
    let mut defined: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut methods: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for module in root.modules() {
        let file = root.shown(&module.path);
        let mut visitor = Types::default();
        visitor.visit_file(&module.syntax);
        for name in visitor.defined {
            defined.entry(name).or_default().insert(file.clone());
        }
        for name in visitor.with_methods {
            methods.entry(name).or_default().insert(file.clone());
        }
    }
    methods.retain(|name, _| defined.get(name).is_some_and(|files| files.len() == 1));
    methods
}

#[derive(Default)]
struct Types {
    defined: BTreeSet<String>,
    with_methods: BTreeSet<String>,
}

impl<'ast> Visit<'ast> for Types {
    fn visit_item(&mut self, item: &'ast Item) {
        match item {
            Item::Struct(item) => drop(self.defined.insert(item.ident.to_string())),
            Item::Enum(item) => drop(self.defined.insert(item.ident.to_string())),
            Item::Impl(item) if item.trait_.is_none() && !is_test(&item.attrs) => {
                self.with_methods.extend(type_name(&item.self_ty));
            }
            _ => {}
        }
        syn::visit::visit_item(self, item);
    }
}

fn type_name(of: &Type) -> Option<String> {
    match of {
        Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
        _ => None,
    }
}

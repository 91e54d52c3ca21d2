//! The modules of a program or library, each in its file, and the imports between files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use syn::visit::Visit;
use syn::{Attribute, Item, ItemMod, ItemUse, UseTree, Visibility};

/// A module's path in its crate, from the root on.
type Names = Vec<String>;

/// A program or a library.
pub(crate) struct Root {
    folder: PathBuf,
    modules: BTreeMap<Names, Module>,
}

/// A file that is a module, without test-only items.
pub(crate) struct Module {
    pub(crate) path: PathBuf,
    pub(crate) syntax: syn::File,
}

/// A name that a `use` brings into a module.
struct Import {
    /// The name there; `None` for all names of a module.
    name: Option<String>,
    /// The path from the crate's root on.
    target: Names,
    is_public: bool,
}

/// Whether an item is for tests only.
pub(crate) fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let is_cfg_test = attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"));
        is_cfg_test || attribute.path().is_ident("test")
    })
}

impl Root {
    /// The library and the programs of a crate.
    pub(crate) fn all_of(folder: &Path) -> impl Iterator<Item = Root> {
        let src = folder.join("src");
        let mut files = vec![src.join("lib.rs"), src.join("main.rs")];
        for entry in std::fs::read_dir(src.join("bin")).into_iter().flatten() {
            let path = entry.expect("a folder can be read").path();
            files.push(if path.is_dir() { path.join("main.rs") } else { path });
        }
        files.retain(|file| file.exists());
        files.into_iter().map(move |file| {
            let mut root = Root { folder: src.clone(), modules: BTreeMap::new() };
            let children = file.parent().expect("a file lies in a folder").to_owned();
            root.load(Names::new(), file, &children);
            root
        })
    }

    /// Loads a module and its descendants, whose files are in `children`.
    fn load(&mut self, names: Names, path: PathBuf, children: &Path) {
        let mut syntax = syn::parse_file(&super::read(&path)).expect("a source that compiles");
        remove_tests(&mut syntax.items);
        for item in &syntax.items {
            if let Item::Mod(ItemMod { ident, content: None, .. }) = item {
                let name = ident.to_string();
                let folder = children.join(&name);
                let file = children.join(format!("{name}.rs"));
                let file = if file.exists() { file } else { folder.join("mod.rs") };
                self.load([&names[..], &[name]].concat(), file, &folder);
            }
        }
        self.modules.insert(names, Module { path, syntax });
    }

    pub(crate) fn modules(&self) -> impl Iterator<Item = &Module> {
        self.modules.values()
    }

    /// A file's path in its crate.
    pub(crate) fn shown(&self, path: &Path) -> String {
        path.strip_prefix(&self.folder).unwrap_or(path).display().to_string()
    }

    /// For each file the others of its crate that it imports from. A re-exported name is imported from its
    /// origin. A module's imports from its own children do not count.
    pub(crate) fn imports(&self) -> BTreeMap<String, BTreeSet<String>> {
        let imports: BTreeMap<&Names, Vec<Import>> =
            self.modules.iter().map(|(names, module)| (names, self.uses(names, module))).collect();
        let mut files = BTreeMap::new();
        for (names, uses) in &imports {
            let file = self.shown(&self.modules[*names].path);
            let used = Used::of(&self.modules[*names].syntax);
            let targets = uses
                .iter()
                // A mere re-export is no dependency.
                .filter(|import| {
                    !import.is_public || import.name.as_ref().is_some_and(|name| used.0.contains(name))
                })
                .map(|import| import.target.clone())
                .chain(used.1.iter().filter_map(|path| self.absolute(names, path)))
                .map(|target| self.origin(&imports, target))
                .filter(|target| !target.starts_with(names))
                .map(|target| self.shown(&self.modules[&target].path));
            let targets: BTreeSet<String> = targets.collect();
            files.insert(file, targets);
        }
        files
    }

    /// The module that defines the item at a path.
    fn origin(&self, imports: &BTreeMap<&Names, Vec<Import>>, mut target: Names) -> Names {
        // A chain of re-exports ends: the crate compiles.
        loop {
            let depth = (0..=target.len()).rev().find(|&depth| self.modules.contains_key(&target[..depth]));
            let module = target[..depth.expect("the root is there")].to_vec();
            let Some(name) = target.get(module.len()) else { return module };
            let passed_on = imports[&module].iter().find(|import| import.name.as_ref() == Some(name));
            match passed_on {
                Some(import) => target = [&import.target[..], &target[module.len() + 1..]].concat(),
                None => return module,
            }
        }
    }

    /// The imports of a module from its own crate.
    fn uses(&self, names: &Names, module: &Module) -> Vec<Import> {
        let mut found = Vec::new();
        let mut visitor = Uses(&mut found);
        visitor.visit_file(&module.syntax);
        found
            .into_iter()
            .filter_map(|(path, name, is_public)| {
                self.absolute(names, &path).map(|target| Import { name, target, is_public })
            })
            .collect()
    }

    /// A module's path, resolved from the crate's root; `None` if it leaves the crate.
    fn absolute(&self, names: &Names, path: &[String]) -> Option<Names> {
        let mut base = names.clone();
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => {
                base.clear();
                rest = &path[1..];
            }
            "self" => rest = &path[1..],
            "super" => {
                while rest.first().is_some_and(|word| word == "super") {
                    base.pop()?;
                    rest = &rest[1..];
                }
            }
            child => {
                base.push(child.into());
                self.modules.contains_key(&base).then_some(())?;
                rest = &path[1..];
            }
        }
        Some([&base[..], rest].concat())
    }
}

fn remove_tests(items: &mut Vec<Item>) {
    items.retain(|item| match item {
        Item::Fn(item) => !is_test(&item.attrs),
        Item::Mod(item) => !is_test(&item.attrs),
        Item::Impl(item) => !is_test(&item.attrs),
        Item::Use(item) => !is_test(&item.attrs),
        _ => true,
    });
    for item in items {
        if let Item::Mod(ItemMod { content: Some((_, items)), .. }) = item {
            remove_tests(items);
        }
    }
}

/// The paths of all `use`s, the name that each binds, and whether it is re-exported.
struct Uses<'u>(&'u mut Vec<(Names, Option<String>, bool)>);

impl Uses<'_> {
    fn walk(&mut self, tree: &UseTree, before: &[String], is_public: bool) {
        let with = |ident: &syn::Ident| [before, &[ident.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.walk(&path.tree, &with(&path.ident), is_public),
            UseTree::Name(name) if name.ident == "self" => {
                self.0.push((before.to_vec(), before.last().cloned(), is_public));
            }
            UseTree::Name(name) => self.0.push((with(&name.ident), Some(name.ident.to_string()), is_public)),
            UseTree::Rename(rename) => {
                self.0.push((with(&rename.ident), Some(rename.rename.to_string()), is_public));
            }
            UseTree::Glob(_) => self.0.push((before.to_vec(), None, is_public)),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.walk(tree, before, is_public)),
        }
    }
}

impl<'ast> Visit<'ast> for Uses<'_> {
    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.walk(&item.tree, &[], !matches!(item.vis, Visibility::Inherited));
    }
}

/// The names that a module mentions outside its `use`s, and its paths that start with `crate` or `super`.
#[derive(Default)]
struct Used(BTreeSet<String>, BTreeSet<Names>);

impl Used {
    fn of(syntax: &syn::File) -> Used {
        let mut used = Used::default();
        used.visit_file(syntax);
        used
    }
}

impl<'ast> Visit<'ast> for Used {
    fn visit_item_use(&mut self, _: &'ast ItemUse) {}

    fn visit_ident(&mut self, ident: &'ast syn::Ident) {
        self.0.insert(ident.to_string());
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Names = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if matches!(&names[0][..], "crate" | "super") && names.len() > 1 {
            self.1.insert(names);
        }
        syn::visit::visit_path(self, path);
    }

    fn visit_vis_restricted(&mut self, _: &'ast syn::VisRestricted) {}
}

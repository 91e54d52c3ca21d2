//! Rows as bytes: little-endian numbers, and texts behind their length (2 bytes).

/// Writes a row's fields.
#[derive(Debug, Default)]
struct Out(Vec<u8>);

impl Out {
    fn number(&mut self, number: i64) -> &mut Out {
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    fn text(&mut self, text: &[u8]) -> &mut Out {
        let length = u16::try_from(text.len()).expect("no field is that long");
        self.0.extend_from_slice(&length.to_le_bytes());
        self.0.extend_from_slice(text);
        self
    }
}

/// Reads them.
struct In<'r>(&'r [u8]);

impl<'r> In<'r> {
    fn number<T: TryFrom<i64>>(&mut self) -> Option<T> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        T::try_from(i64::from_le_bytes(*number)).ok()
    }

    fn text(&mut self) -> Option<Vec<u8>> {
        let (length, rest) = self.0.split_first_chunk()?;
        let (text, rest) = rest.split_at_checked(u16::from_le_bytes(*length).into())?;
        self.0 = rest;
        Some(text.to_vec())
    }

    fn end(&self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

/// A row: how its fields are written and read.
pub(crate) trait Row: Sized {
    fn write(&self) -> Vec<u8>;
    /// Nothing if these are not its bytes.
    fn read(bytes: &[u8]) -> Option<Self>;
}

/// Defines a row with its fields: numbers, and texts.
macro_rules! rows {
    ($($(#[doc = $doc:literal])+ $row:ident { $($field:ident: $kind:ident,)+ })+) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub(crate) struct $row { $(pub(crate) $field: rows!(@type $kind),)+ }

        impl Row for $row {
            fn write(&self) -> Vec<u8> {
                let mut out = Out::default();
                $(rows!(@write $kind, out, self.$field);)+
                out.0
            }

            fn read(bytes: &[u8]) -> Option<$row> {
                let mut fields = In(bytes);
                let row = $row { $($field: rows!(@read $kind, fields),)+ };
                fields.end().map(|()| row)
            }
        }
    )+};
    (@type number) => { u32 };
    (@type cents) => { i64 };
    (@type text) => { Vec<u8> };
    (@write text, $out:ident, $field:expr) => { $out.text(&$field) };
    (@write $kind:ident, $out:ident, $field:expr) => { $out.number($field.into()) };
    (@read text, $fields:ident) => { $fields.text()? };
    (@read $kind:ident, $fields:ident) => { $fields.number()? };
}

rows! {
    /// WAREHOUSE without W_YTD. Rates are in hundredths of a per cent.
    Warehouse { name: text, address: text, tax: number, }
    /// DISTRICT without D_YTD and D_NEXT_O_ID.
    District { name: text, address: text, tax: number, }
    /// A sum of money, in cents.
    Sum { cents: cents, }
    /// The number of an order.
    OrderNumber { number: number, }
    /// CUSTOMER.
    Customer {
        first: text,
        middle: text,
        last: text,
        address: text,
        phone: text,
        since: cents,
        credit: text,
        credit_limit: cents,
        discount: number,
        balance: cents,
        ytd_payment: cents,
        payments: number,
        deliveries: number,
        data: text,
    }
    /// HISTORY.
    History { at: cents, amount: cents, data: text, }
    /// ORDER. Carrier 0: it is not delivered.
    Order { customer: number, entered: cents, carrier: number, lines: number, all_local: number, }
    /// ITEM.
    Item { image: number, name: text, price: cents, data: text, }
    /// STOCK; `info` is that of the district that orders.
    Stock { quantity: number, info: text, ytd: number, orders: number, remote: number, data: text, }
    /// One ORDER-LINE. Delivered 0: not yet.
    Line {
        item: number,
        supplier: number,
        delivered: cents,
        quantity: number,
        amount: cents,
        info: text,
    }
}

/// All lines of an order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lines(pub(crate) Vec<Line>);

impl Row for Lines {
    fn write(&self) -> Vec<u8> {
        let mut out = Out::default();
        self.0.iter().for_each(|line| _ = out.text(&line.write()));
        out.0
    }

    fn read(bytes: &[u8]) -> Option<Lines> {
        let (mut fields, mut lines) = (In(bytes), Vec::new());
        while fields.end().is_none() {
            lines.push(Line::read(&fields.text()?)?);
        }
        Some(Lines(lines))
    }
}

/// The customers with a last name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Named(pub(crate) Vec<u32>);

impl Row for Named {
    fn write(&self) -> Vec<u8> {
        let mut out = Out::default();
        self.0.iter().for_each(|&customer| _ = out.number(customer.into()));
        out.0
    }

    fn read(bytes: &[u8]) -> Option<Named> {
        let (mut fields, mut customers) = (In(bytes), Vec::new());
        while fields.end().is_none() {
            customers.push(fields.number()?);
        }
        Some(Named(customers))
    }
}

/// What a row of W_YTD or D_YTD has; nothing if it is no such row.
pub fn sum_in_cents(row: &[u8]) -> Option<i64> {
    Sum::read(row).map(|sum| sum.cents)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_as_they_are_written_and_no_others() {
        let line = Line { item: 3, supplier: 1, amount: -5, info: b"abc".to_vec(), ..Line::default() };
        let bytes = line.write();
        assert_eq!(Line::read(&bytes), Some(line.clone()));
        for length in 0..bytes.len() {
            assert_eq!(Line::read(&bytes[..length]), None);
        }
        assert_eq!(Line::read(&[bytes.as_slice(), b"x"].concat()), None);
        let lines = Lines(vec![line.clone(), Line::default(), line]);
        assert_eq!(Lines::read(&lines.write()), Some(lines));
        assert_eq!(Named::read(&Named(vec![7, 9]).write()), Some(Named(vec![7, 9])));
        assert_eq!(OrderNumber::read(&Sum { cents: -1 }.write()), None, "an order has no negative number");
    }
}

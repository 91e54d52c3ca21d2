//! Whole numbers on the command line. A refusal names the values that work, for any absurd number.

use sidle_server::config::Auto;

/// Takes numbers from `least` to `most`.
pub fn from_to<T: TryFrom<u64>>(
    least: u64,
    most: u64,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number = text.parse().ok().filter(|number| (least..=most).contains(number));
        let number = number.and_then(|number| T::try_from(number).ok());
        number.ok_or_else(|| format!("give a whole number from {least} to {most}"))
    }
}

/// Takes such numbers, and `auto`.
pub fn auto_or_from_to<T: TryFrom<u64>>(
    least: u64,
    most: u64,
) -> impl Fn(&str) -> Result<Auto<T>, String> + Clone + Send + Sync + 'static {
    let number = from_to(least, most);
    move |text| match text {
        "auto" => Ok(Auto::Auto),
        _ => number(text).map(Auto::Value).map_err(|refusal| format!("{refusal}, or auto")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_outside_and_what_is_none_are_refused() {
        let parse = from_to::<u16>(1, 100);
        assert_eq!((parse("1"), parse("100")), (Ok(1), Ok(100)));
        for bad in ["", "0", "101", "-1", "1.5", "NaN", "18446744073709551616"] {
            assert_eq!(parse(bad), Err("give a whole number from 1 to 100".to_owned()), "{bad}");
        }
        let parse = auto_or_from_to::<u16>(0, 65_535);
        assert_eq!((parse("auto"), parse("7")), (Ok(Auto::Auto), Ok(Auto::Value(7))));
        assert_eq!(parse("65536"), Err("give a whole number from 0 to 65535, or auto".to_owned()));
    }
}

//! Scores as texts, in listpacks and in payloads until Redis 3.2.

use crate::error::RestoreError;
use crate::rest::Rest;

const NOT_A_NUMBER: u8 = 253;
/// Lengths end here: what follows is no text.
pub(crate) const SPECIAL_SINCE: u8 = NOT_A_NUMBER;
const INFINITY: u8 = 254;
const MINUS_INFINITY: u8 = 255;

/// Integers below this are written as such.
const INTEGERS_END: f64 = (1u64 << 53) as f64;

/// A score's text, which reads as the same double.
pub(crate) fn text(score: f64) -> String {
    match score {
        f64::INFINITY => "inf".to_owned(),
        f64::NEG_INFINITY => "-inf".to_owned(),
        _ if score.trunc() == score
            && score.abs() < INTEGERS_END
            && !(score == 0.0 && score.is_sign_negative()) =>
        {
            (score as i64).to_string()
        }
        _ => format!("{score:e}"),
    }
}

/// The score that a text gives.
pub(crate) fn read(text: &[u8]) -> Result<f64, RestoreError> {
    let score = str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok());
    score.filter(|score| !score.is_nan()).ok_or(RestoreError::Damaged)
}

/// A score behind its length, as until Redis 3.2.
pub(crate) fn read_old(rest: &mut Rest<'_>) -> Result<f64, RestoreError> {
    match rest.byte()? {
        NOT_A_NUMBER => Err(RestoreError::Damaged),
        INFINITY => Ok(f64::INFINITY),
        MINUS_INFINITY => Ok(f64::NEG_INFINITY),
        length => read(rest.take(length.into())?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_read_as_the_same_scores() {
        for score in [
            0.0,
            -0.0,
            1.0,
            -7.0,
            0.1,
            1e300,
            5e-324,
            -1.5e-7,
            9_007_199_254_740_993.0,
            1e17,
            f64::MAX,
            f64::INFINITY,
            f64::NEG_INFINITY,
        ] {
            assert_eq!(read(text(score).as_bytes()).unwrap().to_bits(), score.to_bits(), "{score}");
        }
        assert_eq!(text(3.0), "3");
        for bad in ["", "nan", "1x", " 1"] {
            assert_eq!(read(bad.as_bytes()), Err(RestoreError::Damaged));
        }
        assert_eq!(read_old(&mut Rest::new(b"\x031.5")), Ok(1.5));
        assert_eq!(read_old(&mut Rest::new(b"\xff")), Ok(f64::NEG_INFINITY));
        assert_eq!(read_old(&mut Rest::new(b"\xfd")), Err(RestoreError::Damaged));
    }
}

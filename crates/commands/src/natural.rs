//! Natural numbers of any length, with the operations that 80-bit floating point needs.

/// A natural number: 32-bit digits, the lowest first, no zeros at the top.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Natural {
    digits: Vec<u32>,
}

impl From<u64> for Natural {
    fn from(number: u64) -> Natural {
        let mut big = Natural { digits: vec![number as u32, (number >> 32) as u32] };
        big.trim();
        big
    }
}

impl Natural {
    fn trim(&mut self) {
        while self.digits.last() == Some(&0) {
            self.digits.pop();
        }
    }

    /// Whether it is zero.
    pub(crate) fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    /// How many bits it has.
    pub(crate) fn bits(&self) -> u32 {
        let top = self.digits.last().map_or(0, |top| 32 - top.leading_zeros());
        top + 32 * (self.digits.len() as u32).saturating_sub(1)
    }

    /// `self * factor + added`, in place.
    pub(crate) fn multiply_add(&mut self, factor: u32, added: u32) {
        let mut carry = u64::from(added);
        for digit in &mut self.digits {
            carry += u64::from(*digit) * u64::from(factor);
            *digit = carry as u32;
            carry >>= 32;
        }
        if carry != 0 {
            self.digits.push(carry as u32);
        }
    }

    /// Ten to this power.
    pub(crate) fn power_of_ten(power: u32) -> Natural {
        let mut number = Natural::from(1);
        (0..power / 9).for_each(|_| number.multiply_add(1_000_000_000, 0));
        number.multiply_add(10u32.pow(power % 9), 0);
        number
    }

    /// The product.
    pub(crate) fn times(&self, other: &Natural) -> Natural {
        let mut digits = vec![0u32; self.digits.len() + other.digits.len()];
        for (at, &one) in self.digits.iter().enumerate() {
            let mut carry = 0u64;
            for (offset, &two) in other.digits.iter().enumerate() {
                carry += u64::from(one) * u64::from(two) + u64::from(digits[at + offset]);
                digits[at + offset] = carry as u32;
                carry >>= 32;
            }
            digits[at + other.digits.len()] = carry as u32;
        }
        let mut product = Natural { digits };
        product.trim();
        product
    }

    /// The number times two to this power.
    pub(crate) fn shifted_left(&self, places: u32) -> Natural {
        let mut digits = vec![0; (places / 32) as usize];
        let within = places % 32;
        let mut carry = 0u64;
        for &digit in &self.digits {
            carry |= u64::from(digit) << within;
            digits.push(carry as u32);
            carry >>= 32;
        }
        digits.push(carry as u32);
        let mut shifted = Natural { digits };
        shifted.trim();
        shifted
    }

    fn is_below(&self, other: &Natural) -> bool {
        let key = |big: &Natural| big.digits.len();
        key(self)
            .cmp(&key(other))
            .then_with(|| self.digits.iter().rev().cmp(other.digits.iter().rev()))
            .is_lt()
    }

    /// Subtracts a number that is not larger.
    fn subtract(&mut self, other: &Natural) {
        let mut borrow = false;
        for (at, digit) in self.digits.iter_mut().enumerate() {
            let (less, first) = digit.overflowing_sub(other.digits.get(at).copied().unwrap_or(0));
            let (less, second) = less.overflowing_sub(borrow.into());
            *digit = less;
            borrow = first || second;
        }
        assert!(!borrow, "subtracted a larger number from a smaller one");
        self.trim();
    }

    /// The quotient, which must be below 2^127, and whether nothing remains. Bit by bit: texts are short.
    pub(crate) fn divided_by(&self, divisor: &Natural) -> (u128, bool) {
        let mut rest = self.clone();
        let mut quotient = 0u128;
        let places = (self.bits() + 1).saturating_sub(divisor.bits());
        assert!(places < 127, "the quotient would not fit");
        for place in (0..=places).rev() {
            let part = divisor.shifted_left(place);
            if !rest.is_below(&part) {
                rest.subtract(&part);
                quotient |= 1 << place;
            }
        }
        (quotient, rest.is_zero())
    }

    /// The number in decimal digits.
    pub(crate) fn to_decimal(&self) -> String {
        let mut digits = self.digits.clone();
        let mut groups = Vec::new();
        while !digits.is_empty() {
            let mut rest = 0u64;
            for digit in digits.iter_mut().rev() {
                rest = rest << 32 | u64::from(*digit);
                *digit = (rest / 1_000_000_000) as u32;
                rest %= 1_000_000_000;
            }
            groups.push(rest);
            while digits.last() == Some(&0) {
                digits.pop();
            }
        }
        let Some(top) = groups.pop() else { return "0".to_owned() };
        groups.iter().rev().fold(top.to_string(), |text, group| text + &format!("{group:09}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_agrees_with_u128() {
        let samples = [0u64, 1, 9, 10, 1 << 31, 1 << 32, (1 << 33) - 1, 10_u64.pow(18), u64::MAX];
        for one in samples {
            for two in samples {
                let product = u128::from(one) * u128::from(two);
                let big = Natural::from(one).times(&Natural::from(two));
                assert_eq!(big.to_decimal(), product.to_string());
                assert_eq!(big.bits(), 128 - product.leading_zeros());
                if two != 0 {
                    let (quotient, exact) = Natural::from(one).divided_by(&Natural::from(two));
                    assert_eq!(quotient, u128::from(one / two));
                    assert_eq!(exact, one % two == 0);
                }
            }
            assert_eq!(Natural::from(one).shifted_left(37).to_decimal(), (u128::from(one) << 37).to_string());
        }
        assert_eq!(Natural::power_of_ten(30).to_decimal(), format!("1{}", "0".repeat(30)));
    }
}

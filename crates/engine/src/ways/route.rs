//! Routes: which transports an email may take, and in which order they are asked.

/// One transport of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leg {
    /// Its name.
    pub transport: String,
    /// Its share, where the route is a weighted one.
    pub weight: u32,
}

/// How a route chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// The first that is free.
    Ordered,
    /// Any that is free, by their weights.
    Weighted,
}

/// Which transports an email may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// How it chooses.
    pub choice: Choice,
    /// Its transports.
    pub legs: Vec<Leg>,
}

impl Route {
    /// A route by these transports, the first that is free.
    #[must_use]
    pub fn ordered<'a>(transports: impl IntoIterator<Item = &'a str>) -> Self {
        let leg = |name: &str| Leg {
            transport: name.to_owned(),
            weight: 1,
        };
        Self {
            choice: Choice::Ordered,
            legs: transports.into_iter().map(leg).collect(),
        }
    }

    /// In which order its transports are asked this time. `random` gives numbers in 0..1.
    pub(super) fn order(&self, mut random: impl FnMut() -> f64) -> Vec<&str> {
        let mut left: Vec<&Leg> = self.legs.iter().collect();
        let mut order = Vec::with_capacity(left.len());
        while !left.is_empty() {
            let at = match self.choice {
                Choice::Ordered => 0,
                Choice::Weighted => pick(&left, random()),
            };
            order.push(left.remove(at).transport.as_str());
        }
        order
    }
}

/// One of these by their weights. One of weight 0 is taken only when no other is left.
fn pick(legs: &[&Leg], random: f64) -> usize {
    let total: f64 = legs.iter().map(|leg| f64::from(leg.weight)).sum();
    let mut left = random.clamp(0.0, 1.0) * total;
    for (at, leg) in legs.iter().enumerate() {
        left -= f64::from(leg.weight);
        if left < 0.0 {
            return at;
        }
    }
    legs.len() - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordered_route_asks_in_its_order() {
        let route = Route::ordered(["a", "b", "c"]);
        assert_eq!(route.order(|| 0.99), ["a", "b", "c"]);
    }

    #[test]
    fn a_weighted_route_asks_by_its_weights_and_leaves_nobody_out() {
        let leg = |name: &str, weight| Leg {
            transport: name.into(),
            weight,
        };
        let route = Route {
            choice: Choice::Weighted,
            legs: vec![leg("a", 70), leg("b", 30), leg("spare", 0)],
        };
        let first = |random: f64| route.order(|| random)[0];
        let firsts: Vec<&str> = (0..100).map(|n| first(f64::from(n) / 100.0)).collect();
        assert_eq!(firsts.iter().filter(|name| **name == "a").count(), 70);
        assert_eq!(firsts.iter().filter(|name| **name == "b").count(), 30);
        assert_eq!(route.order(|| 0.9), ["b", "a", "spare"]);
        assert_eq!(route.order(|| 1.0).len(), 3);
    }
}

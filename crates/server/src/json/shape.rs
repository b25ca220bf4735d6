//! Shapes that serde's own types are too lenient about.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// The most addresses in one list.
const MOST_ADDRESSES: usize = 1_000;
/// The most entries of a map.
const MOST_ENTRIES: usize = 1_000;
/// The most values that the variables of one email may hold altogether.
const MOST_VALUES: usize = 100_000;
/// What is said about more.
pub(super) const TOO_MANY_VALUES: &str = "holds more than 100000 values";

fn too_many<E: Error>(most: usize) -> E {
    E::custom(format_args!("has more than {most} entries"))
}

/// An object, and nothing else. (Structs are also read from lists otherwise.)
#[derive(Debug, Clone, Default)]
pub(crate) struct Object<T>(pub(crate) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
            type Value = Object<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }
        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

/// A list of at most `MOST` entries.
#[derive(Debug, Clone)]
pub(crate) struct List<T, const MOST: usize>(pub(crate) Vec<T>);

impl<T, const MOST: usize> Default for List<T, MOST> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>, const MOST: usize> Deserialize<'de> for List<T, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ListVisitor<T, const MOST: usize>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>, const MOST: usize> Visitor<'de> for ListVisitor<T, MOST> {
            type Value = List<T, MOST>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
                elements(seq, MOST).map(List)
            }
        }
        deserializer.deserialize_seq(ListVisitor(PhantomData))
    }
}

fn elements<'de, T: Deserialize<'de>, A: SeqAccess<'de>>(
    mut seq: A,
    most: usize,
) -> Result<Vec<T>, A::Error> {
    let mut list = Vec::new();
    while let Some(element) = seq.next_element()? {
        if list.len() == most {
            return Err(too_many(most));
        }
        list.push(element);
    }
    Ok(list)
}

/// One address or a list of them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Addresses(pub(crate) Vec<String>);

impl<'de> Deserialize<'de> for Addresses {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AddressesVisitor;
        impl<'de> Visitor<'de> for AddressesVisitor {
            type Value = Addresses;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an address or a list of addresses")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Addresses(vec![text.to_owned()]))
            }
            fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
                Ok(Addresses::default())
            }
            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
                elements(seq, MOST_ADDRESSES).map(Addresses)
            }
        }
        deserializer.deserialize_any(AddressesVisitor)
    }
}

/// A map in which no key may stand twice.
#[derive(Debug, Clone)]
pub(crate) struct StrictMap<V>(pub(crate) BTreeMap<String, V>);

impl<'de, V: Deserialize<'de>> Deserialize<'de> for StrictMap<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MapVisitor<V>(PhantomData<V>);
        impl<'de, V: Deserialize<'de>> Visitor<'de> for MapVisitor<V> {
            type Value = StrictMap<V>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                entries(map, PhantomData::<V>).map(StrictMap)
            }
        }
        deserializer.deserialize_map(MapVisitor(PhantomData))
    }
}

fn entries<'de, A, S>(mut map: A, seed: S) -> Result<BTreeMap<String, S::Value>, A::Error>
where
    A: MapAccess<'de>,
    S: DeserializeSeed<'de> + Clone,
{
    let mut entries = BTreeMap::new();
    while let Some(key) = map.next_key::<String>()? {
        if entries.contains_key(&key) {
            return Err(A::Error::custom(format_args!("duplicate field `{key}`")));
        }
        if entries.len() == MOST_ENTRIES {
            return Err(too_many(MOST_ENTRIES));
        }
        let value = map.next_value_seed(seed.clone())?;
        entries.insert(key, value);
    }
    Ok(entries)
}

/// The variables of a template: any JSON, in which no key may stand twice, the keys of objects
/// in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Variables(pub(crate) BTreeMap<String, Value>);

impl<'de> Deserialize<'de> for Variables {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct VariablesVisitor;
        impl<'de> Visitor<'de> for VariablesVisitor {
            type Value = Variables;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                let left = Cell::new(MOST_VALUES);
                entries(map, AnyValue { left: &left }).map(Variables)
            }
        }
        deserializer.deserialize_map(VariablesVisitor)
    }
}

/// Reads any value, as long as there are not too many. How deep they may be nested is up to the
/// parser.
#[derive(Clone, Copy)]
struct AnyValue<'a> {
    left: &'a Cell<usize>,
}

impl<'de> DeserializeSeed<'de> for AnyValue<'_> {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        let left = self.left.get();
        if left == 0 {
            return Err(D::Error::custom(TOO_MANY_VALUES));
        }
        self.left.set(left - 1);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for AnyValue<'_> {
    type Value = Value;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }
    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }
    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }
    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }
    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }
    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }
    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(element) = seq.next_element_seed(self)? {
            list.push(element);
        }
        Ok(Value::Array(list))
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Value, A::Error> {
        let entries = entries(map, self)?;
        Ok(Value::Object(entries.into_iter().collect::<Map<_, _>>()))
    }
}

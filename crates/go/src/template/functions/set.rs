//! Sets of functions.

use super::{Function, builtin};
use std::collections::HashMap;
use std::sync::Arc;

/// Functions by name. Cheap to copy.
///
/// ```
/// # use tiphys_go::template::FunctionSet;
/// let plain = FunctionSet::text();
/// let sprig = FunctionSet::text().and(FunctionSet::sprig()).without(&["env", "expandenv", "getHostByName"]);
/// assert!(plain.get("printf").is_some() && plain.get("upper").is_none());
/// assert!(sprig.get("upper").is_some() && sprig.get("env").is_none());
/// ```
#[derive(Debug, Clone, Default)]
pub struct FunctionSet(Arc<HashMap<&'static str, &'static Function>>);

impl FunctionSet {
    /// No functions.
    pub fn empty() -> Self {
        Self::default()
    }

    /// The functions of a table; of equal names the last counts.
    pub fn of(functions: &'static [Function]) -> Self {
        Self(Arc::new(functions.iter().map(|function| (function.name, function)).collect()))
    }

    /// What `text/template` has by itself: `printf`, `index`, `eq` and so on (RND-194).
    pub fn text() -> Self {
        Self::of(builtin::FUNCTIONS)
    }

    /// All of sprig 3.3 (RND-199).
    pub fn sprig() -> Self {
        super::super::sprig::tables().into_iter().map(Self::of).fold(Self::empty(), Self::and)
    }

    /// What a chart's templates may call: text/template's, sprig's without `env` and `expandenv`, Helm's own (RND-196).
    pub fn helm() -> Self {
        Self::text()
            .and(Self::sprig())
            .without(&["env", "expandenv"])
            .and(super::super::helm::tables().into_iter().map(Self::of).fold(Self::empty(), Self::and))
    }

    /// These functions and others; others count where both have a name.
    #[must_use]
    pub fn and(mut self, others: Self) -> Self {
        if self.0.is_empty() {
            return others;
        }
        Arc::make_mut(&mut self.0).extend(others.0.iter());
        self
    }

    /// These functions but for some names.
    #[must_use]
    pub fn without(mut self, names: &[&str]) -> Self {
        Arc::make_mut(&mut self.0).retain(|name, _| !names.contains(name));
        self
    }

    /// What texts of users may call that are rendered in our own process: text/template's and sprig's functions without those
    /// that look outside, `env`, `expandenv` and `getHostByName` (ASET-105, NTF-201, API-186).
    pub fn isolated() -> Self {
        Self::text().and(Self::sprig()).without(&["env", "expandenv", "getHostByName"])
    }

    /// What templates of application sets may call, but for `normalize` and `slugify`, which know Argo CD's names: sprig
    /// without `env`, `expandenv` and `getHostByName`, and YAML that fails where it is wrong (ASET-105, ASET-108).
    pub fn application_set() -> Self {
        Self::isolated().and(Self::of(super::super::helm::application_set()))
    }

    /// Of these functions, those with some names.
    #[must_use]
    pub fn only(mut self, names: &[&str]) -> Self {
        Arc::make_mut(&mut self.0).retain(|name, _| names.contains(name));
        self
    }

    /// A function by its name.
    pub fn get(&self, name: &str) -> Option<&'static Function> {
        self.0.get(name).copied()
    }

    /// All names, in order.
    pub fn names(&self) -> Vec<&'static str> {
        let mut names: Vec<&str> = self.0.keys().copied().collect();
        names.sort_unstable();
        names
    }
}

#[cfg(test)]
mod tests {
    use super::super::price;
    use super::*;
    use std::collections::BTreeSet;

    /// A function without a price would be free: a chart could call it for minutes.
    #[test]
    fn sec_07_every_function_of_a_set_has_a_price() {
        let sets = [FunctionSet::helm(), FunctionSet::sprig(), FunctionSet::application_set()];
        let names: BTreeSet<&str> = sets.iter().flat_map(FunctionSet::names).collect();
        let priced: Vec<&str> = price::names().collect();
        let rows: BTreeSet<&str> = priced.iter().copied().collect();
        let missing: Vec<&&str> = names.difference(&rows).collect();
        assert!(missing.is_empty(), "without a row: {missing:?}");
        // Those that application sets add.
        let others: Vec<&&str> = rows.difference(&names).collect();
        assert_eq!(others, [&"normalize", &"slugify"]);
        assert_eq!(priced.len(), rows.len(), "a name has one row");
    }
}

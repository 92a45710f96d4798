//! A chart in one rendering.

use std::sync::Arc;

use tiphys_go::template::Map;

use super::{enable, import};
use crate::chart::{Chart, Dependency};
use crate::values::{Scope, ValuesError, Work};

/// Charts of one rendering. Aliases of charts with aliases multiply.
const PARTS_MAX: usize = 2_000;

/// Why the charts of a rendering cannot be put together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PartsError {
    /// Their values do not fit.
    #[error(transparent)]
    Values(#[from] ValuesError),
    /// There are too many.
    #[error("the chart has more than {PARTS_MAX} dependencies, each alias counted")]
    TooMany,
}

/// A chart in one rendering.
#[derive(Clone)]
pub(crate) struct Part {
    pub(crate) chart: Arc<Chart>,
    /// Its own name or its alias.
    pub(crate) name: String,
    /// The dependencies that are left; `None` when it lists none.
    pub(crate) dependencies: Option<Vec<Dependency>>,
    /// Default values where they are others than those of the chart.
    pub(crate) defaults: Option<Map>,
    pub(crate) children: Vec<Self>,
}

impl Part {
    /// Finds the charts that take part, with values of users.
    pub(crate) fn resolve(chart: &Arc<Chart>, values: &Map, work: &mut Work) -> Result<Self, PartsError> {
        let mut left = PARTS_MAX;
        let mut root = Self::new(chart, &mut left)?;
        enable::enable(&mut root, values, "", work, &mut left)?;
        import::import(&mut root, work)?;
        Ok(root)
    }

    fn new(chart: &Arc<Chart>, left: &mut usize) -> Result<Self, PartsError> {
        *left = left.checked_sub(1).ok_or(PartsError::TooMany)?;
        let children = chart.subcharts.iter().map(|inner| Self::new(&inner.chart, left));
        Ok(Self {
            chart: Arc::clone(chart),
            name: chart.metadata.name.clone(),
            dependencies: chart.metadata.dependencies.clone(),
            defaults: None,
            children: children.collect::<Result<_, _>>()?,
        })
    }

    /// A copy, counted.
    pub(super) fn copy(&self, left: &mut usize) -> Result<Self, PartsError> {
        *left = left.checked_sub(self.size()).ok_or(PartsError::TooMany)?;
        Ok(self.clone())
    }

    fn size(&self) -> usize {
        1 + self.children.iter().map(Self::size).sum::<usize>()
    }
}

impl Scope for Part {
    fn name(&self) -> &str {
        &self.name
    }

    fn defaults(&self, work: &mut Work) -> Result<Map, ValuesError> {
        match &self.defaults {
            Some(defaults) => work.copy(defaults),
            None => work.read_values(&self.chart.values),
        }
    }

    fn children(&self) -> &[Self] {
        &self.children
    }
}

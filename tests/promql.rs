//! What the expressions of rules are made of.

use promql_parser::parser::value::ValueType;
use promql_parser::parser::{self, Expr, LabelModifier, VectorSelector};

/// Parts of an expression.
#[derive(Default)]
pub(crate) struct Parts {
    /// Names of the series it selects.
    pub(crate) series: Vec<String>,
    /// Labels that vectors are matched on, or summed by; `None` where none are named.
    pub(crate) labels: Vec<Option<Vec<String>>>,
    /// Metric, label and value of matchers, which is a pattern or taken for one.
    pub(crate) matchers: Vec<[String; 3]>,
    /// What the rules do without.
    pub(crate) unusual: Vec<&'static str>,
}

pub(crate) fn parts(text: &str) -> Parts {
    let expr = parser::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let mut parts = Parts::default();
    parts.walk(&expr);
    parts
}

impl Parts {
    fn walk(&mut self, expr: &Expr) {
        match expr {
            Expr::Aggregate(aggregate) => {
                self.labels.push(named(aggregate.modifier.as_ref()));
                self.walk(&aggregate.expr);
                aggregate.param.iter().for_each(|param| self.walk(param));
            }
            Expr::Unary(unary) => self.walk(&unary.expr),
            Expr::Binary(binary) => {
                let both = [&binary.lhs, &binary.rhs];
                if both.iter().all(|side| side.value_type() == ValueType::Vector) {
                    let matching = binary.modifier.as_ref().and_then(|modifier| modifier.matching.as_ref());
                    self.labels.push(named(matching));
                }
                both.into_iter().for_each(|side| self.walk(side));
            }
            Expr::Paren(paren) => self.walk(&paren.expr),
            Expr::Subquery(subquery) => {
                self.unusual.push("a subquery");
                self.walk(&subquery.expr);
            }
            Expr::NumberLiteral(_) | Expr::StringLiteral(_) => {}
            Expr::VectorSelector(selector) => self.select(selector),
            Expr::MatrixSelector(selector) => self.select(&selector.vs),
            Expr::Call(call) => call.args.args.iter().for_each(|argument| self.walk(argument)),
            Expr::Extension(_) => self.unusual.push("an extension"),
        }
    }

    fn select(&mut self, selector: &VectorSelector) {
        let name = selector.name.clone().unwrap_or_default();
        for matcher in &selector.matchers.matchers {
            self.matchers.push([name.clone(), matcher.name.clone(), matcher.value.clone()]);
        }
        self.series.push(name);
        if selector.at.is_some() {
            self.unusual.push("@");
        }
    }
}

fn named(modifier: Option<&LabelModifier>) -> Option<Vec<String>> {
    match modifier {
        Some(LabelModifier::Include(labels)) => Some(labels.labels.clone()),
        Some(LabelModifier::Exclude(_)) | None => None,
    }
}

//! Nodes as URLs, which is how `datafusion-distributed` names workers.

use datafusion::common::{DataFusionError, Result};
use url::Url;

const SCHEME: &str = "rackweave";

/// The URL of the worker at a node.
///
/// # Errors
///
/// A name that no URL can have as its host.
pub fn node_url(node: &str) -> Result<Url> {
    let wrong = |why: &str| {
        DataFusionError::Configuration(format!("the node '{node}' can't be a worker: {why}"))
    };
    let url =
        Url::parse(&format!("{SCHEME}://{node}")).map_err(|error| wrong(&error.to_string()))?;
    match node_of(&url) {
        Ok(same) if same == node => Ok(url),
        _ => Err(wrong("its name is no host of a URL")),
    }
}

/// The node of a worker's URL.
///
/// # Errors
///
/// Another scheme, or more than a node.
pub fn node_of(url: &Url) -> Result<&str> {
    let is_bare = url.username().is_empty()
        && url.password().is_none()
        && url.port().is_none()
        && matches!(url.path(), "" | "/")
        && url.query().is_none()
        && url.fragment().is_none();
    match url.host_str() {
        Some(node) if url.scheme() == SCHEME && is_bare && !node.is_empty() => Ok(node),
        _ => {
            let text = format!("'{url}' is no worker: workers are {SCHEME}://NODE");
            Err(DataFusionError::Configuration(text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_hosts() {
        for node in ["storage0", "Compute-1", "a.b_c", "7"] {
            let url = node_url(node).unwrap();
            assert_eq!(url.as_str(), format!("rackweave://{node}"));
            assert_eq!(node_of(&url).unwrap(), node);
        }
        for node in ["", "a/b", "a:1", "a b", "u@a", "a?b", "a#b", "ä"] {
            assert!(node_url(node).is_err(), "{node}");
        }
    }

    #[test]
    fn other_urls_are_no_workers() {
        for url in [
            "http://a",
            "rackweave://a:1",
            "rackweave://a/b",
            "rackweave:a",
        ] {
            assert!(node_of(&Url::parse(url).unwrap()).is_err(), "{url}");
        }
        assert_eq!(
            node_of(&Url::parse("rackweave://a/").unwrap()).unwrap(),
            "a"
        );
    }
}

//! The files of the page.

use axum::extract::OriginalUri;
use axum::response::{Html, IntoResponse};
use axum::routing::{MethodRouter, get};
use http::header::CONTENT_TYPE;

const CSS: &str = "text/css; charset=utf-8";
const SVG: &str = "image/svg+xml; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";

/// The path, the type and the text of each file beside the page itself.
pub(crate) const FILES: [(&str, &str, &str); 9] = [
    ("/page.svg", SVG, include_str!("page/page.svg")),
    ("/page.css", CSS, include_str!("page/page.css")),
    ("/page.js", JS, include_str!("page/page.js")),
    ("/list.js", JS, include_str!("page/list.js")),
    ("/model.js", JS, include_str!("page/model.js")),
    ("/rows.js", JS, include_str!("page/rows.js")),
    ("/search.js", JS, include_str!("page/search.js")),
    ("/server.js", JS, include_str!("page/server.js")),
    ("/text.js", JS, include_str!("page/text.js")),
];

/// Returns whether the path shows nothing of the store.
pub(crate) fn is_file(path: &str) -> bool {
    path == "/" || FILES.iter().any(|(file, ..)| *file == path)
}

/// The page names its files relative to its own path. A router that is nested by `nest` has no path
/// that ends in a slash: there the files are below the last part of the path. The script finds all
/// else relative to itself.
pub(crate) async fn index(OriginalUri(uri): OriginalUri) -> impl IntoResponse {
    let page = include_str!("page/index.html");
    let last = uri.path().rsplit('/').next().unwrap_or_default();
    if last.is_empty() {
        return Html(page.to_owned());
    }
    let mut folder = String::from("./");
    for c in last.chars() {
        match c {
            '&' => folder.push_str("&amp;"),
            '"' => folder.push_str("&quot;"),
            _ => folder.push(c),
        }
    }
    Html(page.replace("\"page.", &format!("\"{folder}/page.")))
}

/// Answers with a file.
pub(crate) fn file<S: Clone + Send + Sync + 'static>(
    kind: &'static str,
    text: &'static str,
) -> MethodRouter<S> {
    get(async move || ([(CONTENT_TYPE, kind)], text))
}

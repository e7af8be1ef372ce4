//! The files of the page.

use axum::extract::OriginalUri;
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use axum::routing::{MethodRouter, get};
use http::header::CONTENT_TYPE;

const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";

/// The path, the type and the text of each file beside the page itself.
pub(crate) const FILES: [(&str, &str, &str); 7] = [
    ("/page.css", CSS, include_str!("page/page.css")),
    ("/page.js", JS, include_str!("page/page.js")),
    ("/list.js", JS, include_str!("page/list.js")),
    ("/model.js", JS, include_str!("page/model.js")),
    ("/rows.js", JS, include_str!("page/rows.js")),
    ("/server.js", JS, include_str!("page/server.js")),
    ("/text.js", JS, include_str!("page/text.js")),
];

/// Returns whether the path shows nothing of the store.
pub(crate) fn is_file(path: &str) -> bool {
    path == "/" || FILES.iter().any(|(file, ..)| *file == path)
}

/// The page names its files relative to its own path, which therefore ends in a slash.
pub(crate) async fn index(OriginalUri(uri): OriginalUri) -> Response {
    match uri.path().rsplit('/').next() {
        None | Some("") => Html(include_str!("page/index.html")).into_response(),
        Some(last) => Redirect::permanent(&format!("{last}/")).into_response(),
    }
}

/// Answers with a file.
pub(crate) fn file<S: Clone + Send + Sync + 'static>(
    kind: &'static str,
    text: &'static str,
) -> MethodRouter<S> {
    get(async move || ([(CONTENT_TYPE, kind)], text))
}

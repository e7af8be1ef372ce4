//! The files of the page.

use axum::extract::OriginalUri;
use axum::response::{Html, IntoResponse, Redirect, Response};
use http::header::CONTENT_TYPE;

/// The paths that show nothing of the store.
pub(crate) const FILES: [&str; 3] = ["/", "/page.css", "/page.js"];

/// The page names its files relative to its own path, which therefore ends in a slash.
pub(crate) async fn index(OriginalUri(uri): OriginalUri) -> Response {
    match uri.path().rsplit('/').next() {
        None | Some("") => Html(include_str!("page/index.html")).into_response(),
        Some(last) => Redirect::permanent(&format!("{last}/")).into_response(),
    }
}

pub(crate) async fn css() -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/css; charset=utf-8")], include_str!("page/page.css"))
}

pub(crate) async fn js() -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/javascript; charset=utf-8")], include_str!("page/page.js"))
}

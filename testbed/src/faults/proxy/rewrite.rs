//! Rewrites Redis commands on their way to the server.

use super::resp;

/// Replaces the hash of a script: no script has this hash.
const NO_HASH: &[u8] = b"0000000000000000000000000000000000000000";

/// A text and its replacement.
#[derive(Debug)]
pub(super) struct Rewrite {
    pub(super) number: u64,
    pub(super) from: String,
    pub(super) to: String,
}

/// Returns the rewritten command, and the numbers of the rewrites that changed it; `None` if it is
/// unchanged.
///
/// If a script is called by its hash, its text is not known. The hash is replaced by one that no
/// server knows, so that the client sends the text.
pub(super) fn rewritten(command: &[u8], rewrites: &[Rewrite]) -> Option<(Vec<u8>, Vec<u64>)> {
    if rewrites.is_empty() {
        return None;
    }
    let mut elements: Vec<Vec<u8>> = resp::elements(command)?.into_iter().map(<[u8]>::to_vec).collect();
    let mut done = Vec::new();
    if elements.first()?.eq_ignore_ascii_case(b"EVALSHA") && elements.len() > 1 {
        elements[1] = NO_HASH.to_vec();
        return Some((encoded(&elements), done));
    }
    for element in &mut elements {
        let Ok(text) = std::str::from_utf8(element) else { continue };
        let mut text = text.to_owned();
        for rewrite in rewrites.iter().filter(|rewrite| !rewrite.from.is_empty()) {
            if text.contains(&rewrite.from) {
                text = text.replace(&rewrite.from, &rewrite.to);
                done.push(rewrite.number);
            }
        }
        *element = text.into_bytes();
    }
    (!done.is_empty()).then(|| (encoded(&elements), done))
}

fn encoded(elements: &[Vec<u8>]) -> Vec<u8> {
    let mut command = format!("*{}\r\n", elements.len()).into_bytes();
    for element in elements {
        command.extend_from_slice(format!("${}\r\n", element.len()).as_bytes());
        command.extend_from_slice(element);
        command.extend_from_slice(b"\r\n");
    }
    command
}

#[cfg(test)]
mod tests {
    use super::{Rewrite, rewritten};

    fn rewrite(number: u64, from: &str, to: &str) -> Rewrite {
        Rewrite { number, from: from.to_owned(), to: to.to_owned() }
    }

    #[test]
    fn text_is_replaced_and_its_length_with_it() {
        let rewrites = [rewrite(1, "GET", "TIME"), rewrite(2, "x", ""), rewrite(3, "TIME'", "T'")];
        let command = b"*3\r\n$4\r\nEVAL\r\n$11\r\ncall('GET')\r\n$1\r\n\xff\r\n";
        let (changed, done) = rewritten(command, &rewrites).expect("it is changed");
        assert_eq!(changed, b"*3\r\n$4\r\nEVAL\r\n$9\r\ncall('T')\r\n$1\r\n\xff\r\n");
        assert_eq!(done, [1, 3]);
        assert_eq!(rewritten(b"*1\r\n$4\r\nPING\r\n", &rewrites), None);
        assert_eq!(rewritten(b"PING x\r\n", &rewrites), None, "an inline command");
        assert_eq!(rewritten(command, &[]), None);
    }

    #[test]
    fn no_script_is_found_by_its_hash() {
        let command = format!("*3\r\n$7\r\nevalsha\r\n$40\r\n{}\r\n$1\r\n0\r\n", "a".repeat(40));
        let (changed, done) = rewritten(command.as_bytes(), &[rewrite(1, "y", "x")]).expect("it is changed");
        assert_eq!(changed, command.replace('a', "0").replace("ev0lsh0", "evalsha").into_bytes());
        assert!(done.is_empty());
    }
}

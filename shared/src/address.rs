//! Addresses of services as they may be shown: without passwords.

use url::Url;

/// `amqp://user:secret@host/` becomes `amqp://host/`. What is no URL is shown as it is not: it could be all secret.
pub fn without_credentials(address: &str) -> String {
    match Url::parse(address) {
        // `user:secret@host` is a URL too, of the scheme `user`.
        Ok(mut url) if url.has_host() || !address.contains('@') => {
            // Both fail only for URLs that cannot carry credentials.
            let _ = url.set_username("");
            let _ = url.set_password(None);
            url.set_query(None);
            url.to_string()
        }
        _ => "(not a URL)".into(),
    }
}

/// The part before `://`, by which backends are chosen.
pub fn scheme(address: &str) -> &str {
    address.split_once("://").map_or("", |(scheme, _)| scheme)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        assert_eq!(without_credentials("amqp://me:secret@10.0.0.1:5672/%2f"), "amqp://10.0.0.1:5672/%2f");
        assert_eq!(without_credentials("redis://:secret@localhost:6379/0?password=x"), "redis://localhost:6379/0");
        assert_eq!(without_credentials("localhost:5672"), "localhost:5672");
        for no_url in ["secret with spaces", "me:secret@10.0.0.1:5672", "amqp:me:secret@host", "redis:/me:secret@host/"]
        {
            assert_eq!(without_credentials(no_url), "(not a URL)");
        }
    }
}

//! Addresses of services as they may be shown: without passwords.

use url::Url;

/// `amqp://user:secret@host/` becomes `amqp://host/`. What is no URL is shown as it is not: it could be all secret.
pub fn without_credentials(address: &str) -> String {
    match Url::parse(address) {
        Ok(mut url) => {
            // Both fail only for URLs that cannot carry credentials.
            let _ = url.set_username("");
            let _ = url.set_password(None);
            url.set_query(None);
            url.to_string()
        }
        Err(_) => "(not a URL)".into(),
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
        assert!(!without_credentials("secret with spaces").contains("secret"));
    }
}

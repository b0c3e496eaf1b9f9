//! What a request's steps tell a collector of traces, compiled in only with the feature `otel`.
//!
//! `OTEL_EXPORTER_OTLP_ENDPOINT` names the collector, as everywhere with OpenTelemetry; without it nothing is exported.
//! Spans alone are, with ids and times: no log line, and nothing of a request's code, input or output.

#[cfg(not(feature = "otel"))]
mod absent {
    use tracing::Span;
    use tribunal_shared::telemetry::Spans;

    /// Sends what is left when it is dropped.
    pub struct Export;

    pub fn export() -> Result<Option<(Spans, Export)>, String> {
        Ok(None)
    }

    pub fn join(_span: &Span, _traceparent: Option<&str>) {}
}

#[cfg(feature = "otel")]
mod exported {
    use std::collections::HashMap;

    use opentelemetry::propagation::TextMapPropagator as _;
    use opentelemetry::trace::TracerProvider as _;
    use opentelemetry_otlp::{OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, SpanExporter};
    use opentelemetry_sdk::Resource;
    use opentelemetry_sdk::propagation::TraceContextPropagator;
    use opentelemetry_sdk::trace::SdkTracerProvider;
    use tracing::Span;
    use tracing_opentelemetry::OpenTelemetrySpanExt as _;
    use tracing_subscriber::Layer as _;
    use tracing_subscriber::filter::filter_fn;
    use tribunal_shared::telemetry::Spans;

    const SERVICE: &str = "tribunal-worker";

    /// Sends what is left when it is dropped.
    pub struct Export(SdkTracerProvider);

    impl Drop for Export {
        fn drop(&mut self) {
            if let Err(error) = self.0.shutdown() {
                tracing::warn!(%error, "the last spans were not exported");
            }
        }
    }

    /// Where spans go, and what keeps them going. Batches are sent by a thread of their own.
    pub fn export() -> Result<Option<(Spans, Export)>, String> {
        let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let Some(variable) =
            [OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, OTEL_EXPORTER_OTLP_ENDPOINT].iter().find(|name| is_set(name))
        else {
            return Ok(None);
        };
        let exporter = SpanExporter::builder().with_http().build().map_err(|error| format!("{variable}: {error}"))?;
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(Resource::builder().with_service_name(SERVICE).build())
            .build();
        let ours = filter_fn(|metadata| metadata.is_span() && metadata.target().starts_with("tribunal_worker"));
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer(SERVICE)).with_filter(ours);
        Ok(Some((layer.boxed(), Export(provider))))
    }

    /// Makes a span part of the caller's trace.
    pub fn join(span: &Span, traceparent: Option<&str>) {
        if let Some(traceparent) = traceparent {
            let carrier = HashMap::from([("traceparent".to_owned(), traceparent.to_owned())]);
            // It fails only where nobody exports.
            let _ = span.set_parent(TraceContextPropagator::new().extract(&carrier));
        }
    }
}

#[cfg(not(feature = "otel"))]
pub use absent::{export, join};
#[cfg(feature = "otel")]
pub use exported::{export, join};

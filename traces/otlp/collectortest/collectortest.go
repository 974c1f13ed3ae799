// Package collectortest has nothing but tests: OpenTelemetry's collector, with the receiver
// that every distribution of it has, takes what package traces/otlp sends.
package collectortest

// Module peers holds what bench compares Greenroom with, and what nobody who uses Greenroom should inherit: programs
// that do the peer's part of a line.
module github.com/greenroomdb/greenroom/bench/peers

go 1.26.0

require (
	github.com/mattn/go-sqlite3 v1.14.53 // mattn: the driver in C
	go.opentelemetry.io/otel v1.47.0 // otelnoop: attributes and status codes
	go.opentelemetry.io/otel/sdk v1.47.0 // otelnoop: the peer of traces/span
	go.opentelemetry.io/otel/trace v1.47.0 // otelnoop: spans
	modernc.org/sqlite v1.55.0 // modernc: the driver in Go
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dustin/go-humanize v1.0.1 // indirect
	github.com/go-logr/logr v1.4.4 // indirect
	github.com/go-logr/stdr v1.2.2 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/mattn/go-isatty v0.0.20 // indirect
	github.com/ncruces/go-strftime v1.0.0 // indirect
	github.com/remyoudompheng/bigfft v0.0.0-20230129092748-24d4a6f8daec // indirect
	go.opentelemetry.io/auto/sdk v1.2.1 // indirect
	go.opentelemetry.io/otel/log v1.47.0 // indirect
	go.opentelemetry.io/otel/metric v1.47.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	modernc.org/libc v1.74.1 // indirect
	modernc.org/mathutil v1.7.1 // indirect
	modernc.org/memory v1.11.0 // indirect
)

// Module ecosystem tries out with Greenroom what others have written for SQLite: extensions, generated query
// code, a migration library. It is apart so that nobody who uses Greenroom inherits them.
module github.com/greenroomdb/greenroom/test/ecosystem

go 1.26.0

replace github.com/greenroomdb/greenroom => ../..

require (
	github.com/glebarez/sqlite v1.11.0 // SQLite's dialect for GORM, MIT: the one without cgo; its driver isn't used
	github.com/greenroomdb/greenroom v0.0.0 // what is tried out
	github.com/ncruces/go-sqlite3 v0.35.6 // SQLite and its extensions
	github.com/pressly/goose/v3 v3.28.0 // a migration library: it takes any sql.DB, and is well kept
	gorm.io/gorm v1.31.2 // an ORM, MIT, well kept
)

require (
	github.com/dustin/go-humanize v1.0.1 // indirect
	github.com/glebarez/go-sqlite v1.21.2 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/jinzhu/inflection v1.0.0 // indirect
	github.com/jinzhu/now v1.1.5 // indirect
	github.com/mattn/go-isatty v0.0.24 // indirect
	github.com/mfridman/interpolate v0.0.2 // indirect
	github.com/ncruces/go-sqlite3-wasm/v6 v6.3.35304 // indirect
	github.com/ncruces/go-strftime v1.0.0 // indirect
	github.com/ncruces/julianday v1.0.0 // indirect
	github.com/ncruces/sort v1.0.2 // indirect
	github.com/remyoudompheng/bigfft v0.0.0-20230129092748-24d4a6f8daec // indirect
	github.com/sethvargo/go-retry v0.4.0 // indirect
	github.com/tidwall/btree v1.8.2 // indirect
	go.uber.org/multierr v1.11.0 // indirect
	golang.org/x/sync v0.23.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.42.0 // indirect
	modernc.org/libc v1.75.6 // indirect
	modernc.org/mathutil v1.7.1 // indirect
	modernc.org/memory v1.12.1 // indirect
	modernc.org/sqlite v1.57.0 // indirect
)

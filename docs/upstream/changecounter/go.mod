// Module changecounter shows a defect of go-sqlite3 to its maintainers. It stands alone, so that it can be sent as it is.
module example.com/changecounter

go 1.26.0

require github.com/ncruces/go-sqlite3 v0.35.6 // what is shown to be defective

require (
	github.com/ncruces/go-sqlite3-wasm/v6 v6.3.35304 // indirect
	github.com/ncruces/julianday v1.0.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
)

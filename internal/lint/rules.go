package lint

// rules returns every rule, in the order in which they are reported.
func rules() []rule {
	return []rule{
		{"layers", "a package can be understood knowing only what lies below it", checkLayers},
		{"restricted", "a dependency that is used in one place can be replaced there", checkRestricted},
		{"floor0", "formats and limits must not move with somebody else's release", checkFloorZero},
		{"init", "importing a package must change nothing", checkInit},
		{"blank", "importing a package for its side effects is the program's decision", checkBlank},
		{"sqlitevfs", "two packages are named vfs, and a reader must see which one is meant", checkAlias},
		{"cgo", "one static binary for every platform", checkCgo},
		{"package-doc", "a package that can't be said in one sentence is not one package", checkPackageDoc},
		{"exported-doc", "what others call, they call knowing its contract", checkExportedDoc},
		{"hidden", "a reader of a package's documentation sees no field and no method of a type that an internal package declares", checkHidden},
		{"errors", "a caller branches on few kinds of errors, whichever package an error comes from", checkErrors},
		{"length", "a file of more than 600 lines holds a second noun", checkLength},
		{"writers", "what has several ways into the store has several ways to get lost", checkWriters},
		{"methods", "a type with more methods, or in more files, is several types that share their fields", checkRatchet("methods")},
		{"order", "a reader of many files must know with which to begin", checkRatchet("order")},
		{"upward", "a file can be understood knowing only what lies below it", checkRatchet("upward")},
		{"prose", "a sentence whose subject is a pronoun is read twice", checkRatchet("prose")},
		{"sleep", "a test that sleeps is slow when it passes and flaky when it fails", checkSleep},
		{"suites", "a reader must see what a run leaves out", checkSuites},
		{"gate", "a change must be tried often, and what it is tried with must be there", checkGate},
		{"words", "the tree speaks for itself, and has nothing left open", checkWords},
		{"links", "a page that leads nowhere is out of date", checkLinks},
		{"claims", "what a page says that a test holds must be held by one", checkClaims},
		{"requires", "a dependency that nobody can explain can't be removed", checkRequires},
		{"keys", "no key is stored that its package doesn't list", checkKeys},
	}
}

package importer

// What the tests know of files without a directory.
var (
	ParseState = parseState
	ParseAlarm = parseAlarm
)

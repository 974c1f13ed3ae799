// Package layout is how a store of actors lies in an engine: which key a row has, and
// which bytes are its value. It builds keys and values, and takes them apart. It reads
// no engine, keeps no state and has no locks, so all of it is safe for concurrent use.
//
// Package actorstore decides which rows are written when, and is what programs use. It
// also has the logical keys of actors, which other packages build.
//
// A function that appends returns the extended slice, keeps neither dst nor an argument,
// and allocates nothing when dst has room. Times are in milliseconds since the Unix
// epoch.
package layout

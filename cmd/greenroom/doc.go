// Command greenroom looks into a Greenroom store and works with what is in it:
// SQL on the database of an actor, whole SQLite files in and out, keys and values.
package main

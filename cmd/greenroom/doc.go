// Command greenroom looks into a Greenroom store and works with what is in it:
// SQL on the database of an actor, whole SQLite files in and out, keys and values.
//
// It is a tool for people and scripts, not a server: it opens the store, does one
// thing, and closes it. A store can be open in one process at a time.
//
//	greenroom sql STORE ACTOR [SQL]             run SQL, or an interactive shell
//	greenroom import STORE ACTOR FILE.db        an SQLite file becomes the actor's database
//	greenroom export STORE ACTOR FILE.db        the actor's database becomes an SQLite file
//	greenroom ls STORE [ACTOR [PREFIX]]         list actors, or an actor's keys in words
//	greenroom get STORE ACTOR KEY               write the value of a user key
//	greenroom put STORE ACTOR KEY [VALUE|-]     store a value under a user key
//	greenroom rm STORE ACTOR {KEY… | --prefix P | --all}
//	                                            remove user keys
//
// STORE is the directory of a store, or pebble:DIR; mem: is a store that is gone
// when the command ends. ACTOR is an actor's name, or id: and the text of its id.
// KEY is text, or hex: and bytes in hexadecimal. What begins with a dash and is no
// flag comes after "--".
//
// sql, import and put create the store and the actor that they name; all others
// refuse what isn't there. Those that only read (ls, get, export, and sql with
// --read-only) write nothing to the store and see one state of it throughout.
//
// # SQL
//
//	$ greenroom sql data shop "create table item(id integer primary key, name, price real)"
//	$ greenroom sql data shop
//	insert into item(name, price) values ('tea', 2.5), ('cake', 4);
//	select name, price from item;
//	tea|2.5
//	cake|4.0
//	$ greenroom sql data shop "select count(*) from item"
//	2
//	$ greenroom sql --json data shop "select * from item"
//	[{"id":1,"name":"tea","price":2.5},
//	{"id":2,"name":"cake","price":4.0}]
//	$ greenroom sql --csv data shop "select * from item"
//	id,name,price
//	1,tea,2.5
//	2,cake,4.0
//
// Statements come from the argument, else from standard input. Each one runs as
// soon as its semicolon is read, and its rows are written before the next one is
// read. The first error ends the run: it names the statement and its line, what
// came before stays, and a transaction that is open is rolled back. A transaction
// that is open when the input ends is rolled back as well, and is an error.
//
// Rows are a table on a terminal, which keeps them all in memory until the last
// one, and elsewhere lines with fields separated by |, as sqlite3 writes them.
// --table, --csv and --json choose another form:
//
//	           list           csv         json                     table
//	header     with --header  yes         keys of the objects      yes
//	NULL       nothing        nothing     null                     NULL
//	'' (text)  nothing        ""          ""                       nothing
//	blob       its bytes      X'00FF'     "X'00FF'"                X'00FF'
//	real       as SQLite      as SQLite   digits to read it back   as SQLite
//
// JSON is one array per statement that has columns. Control characters reach a
// table in an escaped form only.
//
// Names of files in SQL (ATTACH, VACUUM INTO) are those of databases in the store,
// of which a session has one. A file of the operating system is written
// 'file:NAME?vfs=os':
//
//	$ greenroom sql data shop "attach 'file:old.db?vfs=os' as old; insert into item select * from old.item"
//
// On a terminal, without SQL, a shell starts: lines are edited, Ctrl-C gives up
// the statement that is typed or runs, Ctrl-D ends. Commands begin with a dot, and
// work in a stream too: .help .tables .schema .mode .headers .read .quit. The
// history is kept in greenroom/history in the folder for the state of programs
// ($XDG_STATE_HOME); lines that begin with a space are left out of it.
//
// # Files
//
//	$ greenroom export data shop shop.db
//	$ greenroom import data copy shop.db
//
// Both are SQLite's online backup in one transaction: until the copy is whole, the
// target has what it had before. import checks the file first (PRAGMA quick_check)
// and refuses a damaged one; it reads what is in the write-ahead log of
// the file too; SQLite may leave empty -wal and -shm files beside such a file.
// export replaces a file with --force only. A bar on standard error shows how far
// it is, if that is a terminal.
//
// # Keys
//
//	$ greenroom put data shop opening "9 to 5"
//	$ greenroom get data shop opening
//	9 to 5
//	$ greenroom ls data shop
//	user/opening          6     2026-05-04T10:11:12.131Z
//	sqlite/metadata/main  10    2026-05-04T10:11:11.001Z
//	sqlite/chunks/main/0  4096  2026-05-04T10:11:11.001Z
//	sqlite/chunks/main/1  4096  2026-05-04T10:11:11.001Z
//	$ greenroom rm data shop opening
//
// get writes the value and nothing else: no line feed. ls writes a table on a
// terminal, and elsewhere lines with fields separated by tabs. Its PREFIX is
// compared with the words as text: sqlite/chunks/ is a branch, user/room: is all
// user keys that begin with room:.
//
// # Exit status
//
// 0 when all went well, 1 when something failed, 2 when the call was wrong. Errors
// are one line on standard error. On an interrupt or SIGTERM the command gives up
// what isn't committed, closes the store and ends with 1; a second one ends it at
// once, which harms nothing that was committed.
package main

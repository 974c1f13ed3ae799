// Command greenroom looks into a Greenroom store and works with what is in it:
// SQL on the database of an actor, whole SQLite files in and out, keys and values.
//
// It is a tool for people and scripts: it opens the store, does one thing, and closes it.
// Only host is a server, which runs the actors. A store in a directory can be open in one
// process at a time, one in PostgreSQL in many.
//
//	greenroom sql STORE ACTOR [SQL]             run SQL, or an interactive shell
//	greenroom import STORE ACTOR FILE.db        an SQLite file becomes the actor's database
//	greenroom import-rivetkit STORE DIR         copy the actors of a RivetKit program
//	greenroom export STORE ACTOR FILE.db        the actor's database becomes an SQLite file
//	greenroom fork STORE ACTOR NEW              make a new actor with all that an actor has
//	greenroom copy STORE ACTOR STORE2 [NEW]     make it in another store
//	greenroom ls STORE [ACTOR [PREFIX]]         list actors, or an actor's keys in words
//	greenroom top STORE                         list the actors that have used most
//	greenroom get STORE ACTOR KEY               write the value of a user key
//	greenroom put STORE ACTOR KEY [VALUE|-]     store a value under a user key
//	greenroom rm STORE ACTOR {KEY… | --prefix P | --all}
//	                                            remove user keys
//	greenroom drop STORE ACTOR                  remove an actor with all that it has
//	greenroom queue ls STORE ACTOR [NAME…]      list the messages of an actor's queue
//	greenroom queue stats STORE ACTOR           count them
//	greenroom queue peek STORE ACTOR [NAME…]    show the next ones with their bodies
//	greenroom queue send STORE ACTOR NAME [JSON|-]
//	                                            enqueue a message
//	greenroom queue drain STORE ACTOR [NAME…]   write messages and remove them
//	greenroom workflow ls STORE                 list the actors that have a workflow
//	greenroom workflow show STORE ACTOR         show one, with its history as a tree
//	greenroom workflow save STORE ACTOR         write its history for tests
//	greenroom workflow cancel|retry STORE ACTOR end it for ever, or try what failed again
//	greenroom workflow again STORE ACTOR        start one that is over anew, with its input
//	greenroom workflow replay STORE ACTOR STEP  have it go on from before a step
//	greenroom state show STORE ACTOR            show an actor's own record
//	greenroom conns ls STORE ACTOR              list the connections that an actor has stored
//	greenroom conns discard STORE ACTOR [ID]    remove one that can't be read, or stray rows
//	greenroom conns disconnect STORE ACTOR ID   end one in the host that has the store open
//	greenroom wake|sleep STORE ACTOR            wake an actor there, or put it to sleep
//	greenroom traces ls STORE ACTOR             list an actor's traces
//	greenroom traces show STORE ACTOR TRACE     show one, span by span
//	greenroom items ls STORE [PREFIX]           list items at key paths
//	greenroom items get STORE PATH…             write the fields of items
//	greenroom items put STORE TYPE [JSON|-]     put an item
//	greenroom items rm STORE {PATH… | --prefix P}
//	                                            remove items
//	greenroom items sync STORE {PREFIX | TOKEN} list what has changed in a list
//	greenroom items schema STORE                show the item types
//	greenroom items sweep|build STORE           remove what has ended, build new key paths
//	greenroom items check STORE                 report what doesn't fit together
//	greenroom docs ls|get STORE PATH            list what lies at a path, write a document
//	greenroom docs put STORE PATH [JSON|-]      create a document, or replace its properties
//	greenroom docs mkdir|rm|mv STORE PATH…      create a container, remove, move
//	greenroom docs create STORE KIND PATH TYPE EXPRESSION
//	                                            create a category, a catalogue or an index
//	greenroom docs find|explain STORE TYPE EXPRESSION
//	                                            list documents by an expression, say how
//	greenroom docs search STORE INDEX PATTERN   list documents by their text
//	greenroom docs build|rebuild STORE PATH     build a category, a catalogue or an index
//	greenroom docs import|export STORE …        take and give the keys of Implexus
//	greenroom docs check STORE                  report what doesn't fit together
//	greenroom check STORE [ACTOR]               walk everything, report what is wrong
//	greenroom salvage OLD NEW                   copy what can be read of a damaged store
//	greenroom host [STORE]                      serve actors over HTTP and WebSockets
//
// STORE is the directory of a store, or pebble:DIR; postgres://USER@HOST/DATABASE, a
// store in PostgreSQL; mem: is a store that is gone when the command ends. ACTOR is an actor's name, or id: and the text of its id.
// KEY is text, or hex: and bytes in hexadecimal; get and rm also take it as ls shows it. An argument that begins with a dash
// and isn't a flag comes after "--".
//
// sql, import and put create the store and the actor that they name, with the first statement that writes, and say
// so on standard error. docs mkdir, docs put, docs import and copy create the store, and say so;
// host and import-rivetkit create it, too. All others, and a query of sql, refuse what isn't
// there, and say which names are near. Those that only read (ls, get, export, check, and
// sql with --read-only) write nothing to the store and see one state of it throughout; they read a store
// that they may not write to, on a read-only mount for instance. With --without-log-rest they read a store whose log is
// damaged, up to the first commit that can't be read, and say on standard error what is left out; check counts it as a problem.
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
// A table that is wider than the terminal has its long values cut, which end with "…" then; one of too many columns
// is written as .mode line does it, with each value on a line of its own. EXPLAIN QUERY PLAN is drawn as a tree,
// but for csv, json and line. --table, --csv and --json choose another form:
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
// On a terminal, without SQL, a shell starts: lines are edited, Tab completes keywords and the names of tables and
// columns, a statement of several lines comes back from the history as one (␤ is a line feed), Ctrl-C gives up
// the statement that is typed or runs, Ctrl-D ends. Commands begin with a dot, and
// work in a stream too: .help .tables .schema .indexes .dump .import .mode .headers .read .timer .quit
// .exit. The shell says how many rows a statement changes. The history is kept in greenroom/history in the folder for the state of programs
// ($XDG_STATE_HOME); lines that begin with a space are left out of it.
//
// .dump writes the SQL that makes the database, which sqlite3 reads, and sql reads what sqlite3 dumps:
//
//	$ greenroom sql data shop .dump | sqlite3 shop.db
//	$ sqlite3 old.db .dump | greenroom sql data old
//
// Unlike sqlite3's own it has all of a text with NUL in it, user_version and application_id, and rowids where these
// have gaps. .import inserts the rows of a file of CSV, all or none; the first line is left out if it has the names
// of the columns, and names those of a table that isn't there. What is nothing is NULL, and "" the empty text.
//
// # Files
//
//	$ greenroom export data shop shop.db
//	$ greenroom import data copy shop.db
//
// Both are SQLite's online backup in one transaction: until the copy is whole, the
// target has what it had before. A bar on standard error shows how far it is, if
// that is a terminal. export replaces a file with --force only.
//
// import reads one state of FILE.db, and what its write-ahead log holds; it doesn't
// change the file, beside which SQLite may leave empty -wal and -shm files. Without
// a log, a program that writes to FILE.db has to wait meanwhile. The file is checked
// first (PRAGMA quick_check). These are refused:
//
//   - A file that isn't a database, is encrypted, is damaged, or is shorter than its pages.
//   - A file that another program keeps locked for more than ten seconds.
//   - More than the actor may store, 1 GiB. Its previous database counts as long as the
//     undo journal needs it, so a large database may fit in an empty actor, and not in
//     place of another large one.
//   - An unfinished transaction over several files beside it, which only SQLite can
//     decide, there.
//
// The unfinished transaction of a program that was cut off, a hot journal, is rolled
// back in a temporary copy, as SQLite would do on opening FILE.db. A log whose index
// can't be created, as in a folder that is read-only, is read in such a copy too.
//
// fork makes an actor NEW, which must not exist yet, with everything that ACTOR has but its
// connections and the inspector's token. NEW appears when it is whole. If a fork is cut off,
// check notes what is left, and the next program that opens NEW removes it, another fork for
// instance.
//
// copy is fork from one store to another, of the same or another kind. It makes STORE2 if that isn't there. STORE may
// be open in a host; STORE2 may not, unless it is in PostgreSQL.
//
// greenroom completion writes what bash, zsh, fish and PowerShell need to complete commands, flags and the names of
// actors.
//
// # RivetKit
//
//	$ greenroom import-rivetkit data rivetkit-files
//	room/lobby    imported  9   446    t96hpk6j3ivhlga1ytd7bh5g3z0000  20fe92c7241f12c9
//	ledger/books  imported  21  69853  xo8s9areywgcaqu9mmqc10jyxl0000  94bd18598008b245
//	2 actors imported
//
// import-rivetkit copies the actors of a program on RivetKit 2.1 or 2.2, from the
// directory of its file-system driver. The columns are the actor, what became of it, the
// keys that were written and their bytes, its id, and its id in that directory. An actor
// is imported; resumed, after an import that was cut off; present, and left as it is,
// because an earlier import was complete; or destroyed, and left out. What can't be
// imported is a line on standard error, and the status is 1.
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
// # Queue
//
//	$ greenroom queue send data shop order '{"item":1}'
//	1
//	$ greenroom queue stats data shop
//	order  1  1  0  0  0  30  2026-05-04T10:11:12.131Z
//	$ greenroom queue peek data shop
//	1  order  2026-05-04T10:11:12.131Z  0  {"item":1}
//
// The columns of stats are the name, messages, ready, delayed, leased, unreadable, bytes
// and the oldest; those of ls the id, the name, the state, its end, how often the message
// was handed out, its bytes, when it was enqueued, and why it can't be read. With --json
// they have their names. Looking takes nothing and changes nothing: leases go on.
//
// # Connections
//
// conns ls lists the connections of an actor that hibernate, as they were saved last: a
// table on a terminal, elsewhere lines with fields separated by tabs, and with --json
// objects that have the parameters, the state and the headers too. One that can't be read
// has a problem, and is left alone by everything else.
//
// # Traces
//
//	$ greenroom traces ls data shop --since 1h
//	0af7651916cd43dd8448eb211c80319c  2026-05-04T10:11:12.131Z  1.5s  3  0  1  actor.action.order
//	$ greenroom traces show data shop 0af7651916cd43dd8448eb211c80319c
//	trace 0af7651916cd43dd8448eb211c80319c: 1.5s from 2026-05-04T10:11:12.131Z
//	3 spans, 0 running, 1 error
//
//	actor.action.order        1.5s  ███████████████████████████
//	├ db.query               250ms   ████
//	└ ! http.send            700ms              ████████████
//	    ! no route to host
//
// The columns of ls are the trace, when it began, how long it took, its spans, those that
// run, those that failed, and the name of the first one. With --json both write the spans
// in the JSON of OTLP, which OpenTelemetry's programs read. Both see what is stored: a
// program that records keeps the last seconds in memory. What can't be read is a line on
// standard error, and changes nothing about the rest.
//
// # Items
//
//	$ greenroom items ls data /student-123
//	/student-123                                     Student   2026-05-04T10:11:12.131Z  {"ID":123,"Name":"Ada"}
//	/student-123/year-2023/quarter-1/course-MATH321  Enrolled  2026-05-04T10:11:12.131Z  {"Course":"MATH321","Year":2023…
//	$ greenroom items put data Student '{"ID":125,"GraduatingYear":2026,"Name":"Cleo"}'
//	/student-125
//	$ greenroom items get data /student-125
//	{"ID":125,"GraduatingYear":2026,"Name":"Cleo"}
//
// They are those that a program keeps with package itemstore; docs/items.md is their manual. A program makes
// them, and says what types there are: the commands go by the newest version of its schema. If a store has
// items of several names, --name says which.
//
// In the JSON of what lies below a field, bytes are {"$bytes":"AAE="}, in base64, times {"$time":"2026-05-04T10:11:12Z"},
// and durations {"$tag":[1735552621,1000]}, in nanoseconds: so put stores what get has shown.
//
// # Documents
//
//	$ greenroom docs mkdir data /users
//	$ greenroom docs put data /users/john --type User '{"name":"John Doe","age":30,"status":"active"}'
//	$ greenroom docs create data category /active User "status == 'active'"
//	$ greenroom docs create data index /by-name User name
//	$ greenroom docs ls data /active
//	/users/john  document  User
//	$ greenroom docs get data /active/john
//	{"age":30,"name":"John Doe","status":"active"}
//	$ greenroom docs search data /by-name "*doe*"
//	/users/john
//	$ greenroom docs find data User "age > p0 && status == 'active'" --param 18
//	/users/john  {"age":30,"name":"John Doe","status":"active"}
//	$ greenroom docs explain data User "status == 'active'"
//	category /active
//	$ greenroom docs export data >documents.ndjson
//	$ greenroom docs import copy documents.ndjson
//
// They are those that a program keeps with package docstore; docs/documents.md is their manual. put, mkdir and import
// create the store that they name, and documents in it. If a store has documents of several names, --name says which.
//
// In JSON, integers have neither fraction nor exponent, and floats have one. Bytes are {"$bytes":"AAE="}, in base64,
// unsigned integers {"$uint":5} where they would be read as signed ones, and {"$float":"NaN"} is what is not a number:
// so put stores what get has shown.
//
// A dump is lines {"key":"props:/users/john","value":"…"}, with the value in base64. What is imported may also be a
// directory with a file for each key, which has the name of the key in hexadecimal.
//
// # Check
//
//	$ greenroom check data
//	harmless: shop: sqlite/chunks/main/7: it lies beyond the size of 8192 bytes; the next owner removes it
//	2 actors, 31 keys, 1 problem (1 harmless)
//
// check reads all that is stored, has SQLite look at each database (PRAGMA
// integrity_check), counts queues, reads the histories of workflows, and compares traces
// with their index. Each problem is a line: the actor, the key in words, and what is
// wrong with it. What begins with "harmless" was left by a crash, and is removed by
// the next owner of the actor: any command that writes to its database. What begins
// with "note" is a transaction that was cut off, and is rolled back by the next
// owner; it is not a problem. Nor is a table that SQLite can't check here, because it needs a
// function, a collation or a module that the actor's own program registers: that is a
// "note", too. The last line counts.
//
// With --json each line is an object with actor, id, where, what, harmless, unfinished and,
// if it is true, unchecked, actor and id being left out of what is wrong with the store
// itself; the last has actors, keys, problems, harmless, unfinished and, if it isn't 0,
// unchecked.
//
// Where something can't be read, as in a table of which a block is damaged, the check goes on with the other actors, and
// says of each whether it is "whole": an object of actor, id and whole. Actors without a name behind
// that place in the list of actors aren't found.
//
// Nothing is changed, and no actor taken over. The status is 0 if there are no
// problems, and 1 if there are, harmless or not.
//
// # Host
//
//	$ greenroom host --demo
//	serving chat, counter at http://127.0.0.1:6420
//	no token is needed: anybody on this machine may use it
//	  curl --json 2 http://127.0.0.1:6420/actors/counter/lobby/actions/add
//	  curl --json '{"name":"Ann","text":"hello"}' http://127.0.0.1:6420/actors/chat/lobby/actions/say
//	  curl --json 0 http://127.0.0.1:6420/actors/chat/lobby/actions/history
//	  and open http://127.0.0.1:6420/ in two windows
//	end it with Ctrl-C
//
// host serves the actors of a store until it gets an interrupt or SIGTERM, which is its
// good end, with status 0. It listens on loopback; elsewhere, or with --token-file, every
// request needs one of the tokens. What goes over the wire is in docs/front.md. The log
// is on standard error. engine does the same for the programs of RivetKit, whose actors sleep
// first when it ends; docs/rivetkit.md is its page.
//
// # Environment
//
// GREENROOM_ATOMIC_BATCHES bounds how many sub-batches of a store one atomic commit
// may take; 0, the default, means as many as the engine takes. With 1 a transaction
// that changes more than about 120 pages goes through SQLite's rollback journal. It
// is there to test that: it makes nothing safer, and large transactions slower.
//
// GREENROOM_ADMIN_TOKEN is the token with which a command asks the host that has an actor awake,
// where several hosts use a store in PostgreSQL. GREENROOM_ADMIN_INSECURE=1 lets it go to other
// machines without TLS. See docs/operations.md.
//
// # Exit status
//
// 0 when all went well, 1 when something failed or check found a problem, 2 when the
// call was wrong, 3 when the store has failed for good, as on a disk that is full: then
// what was acknowledged is stored, and the next start opens it. host and engine end so as well, so
// that a supervisor can start them again. Errors are one line on standard error. On an interrupt or SIGTERM
// the command, but for host and engine, gives up what isn't committed, closes the store and ends with 1; a
// second one ends it at once, which harms nothing that was committed.
package main

// Files, from the top down:
//
//	main.go root.go servecommand.go host.go completeargs.go salvage.go backup.go restore.go items.go docs.go docswrite.go docsquery.go docsdump.go itemswrite.go itemslook.go
//	engine.go sql.go complete.go dot.go dump.go importcsv.go firstwrite.go state.go traces.go workflowshow.go
//	export.go askhost.go hosts.go limits.go import.go importrivetkit.go queuedrain.go shell.go statecodec.go
//	traceswaterfall.go workflow.go check.go conns.go awake.go itemscommand.go docscommand.go docsjson.go modelcommand.go
//	label.go bulk.go ls.go top.go search.go queue.go rivetkeys.go session.go admin.go
//	sourcecopy.go copy.go fork.go migrate.go print.go source.go userkeys.go env.go hostwasm.go
//	sourceerrors.go store.go terminal.go copydatabase.go doc.go errors.go near.go group.go history.go
//	hostdemo.go input.go split.go keywords.go visible.go

package main

import (
	"github.com/spf13/cobra"
)

// newRoot returns the command line.
func newRoot(e *env) *cobra.Command {
	root := &cobra.Command{
		Use:   "greenroom",
		Short: "Look into a Greenroom store and work with what is in it",
		Long: `Greenroom keeps a private key-value space and a SQLite database for each actor.

STORE is the directory of a store, pebble:DIR, or postgres://USER@HOST/DATABASE.
ACTOR is the name of an actor, or id: and the text of its id. The commands sql,
import and put create store and actor with their first write, and say so; copy makes its
STORE2; host and import-rivetkit create both as they are needed; all others refuse what isn't there.

While host or engine has a store open, all other commands but import-rivetkit and salvage
go on working with it: that process does for them what they ask for. A program of your own
lets them in by admin.Listen. A store in PostgreSQL they open for themselves, and ask the
host that has an actor awake for what is written to it, with $GREENROOM_ADMIN_TOKEN.`,
		Version: version(),
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(e.stdin)
	root.SetOut(e.stdout)
	root.SetErr(e.stderr)
	root.SetVersionTemplate("greenroom {{.Version}}\n")
	root.AddCommand(
		newSQL(e), newImport(e), newImportRivetKit(e), newExport(e), newFork(e), newCopy(copying{env: e}), newList(e), topCommand{output: output{env: e}}.command(), labeller{e}.command(),
		newGet(e), newPut(e), newRemove(removeCommand{env: e}), newDrop(bulk{env: e}), newMigrate(bulk{env: e}), newQueue(e), newCheck(e), salvager{e}.command(),
		newWake(target{env: e}), newSleep(target{env: e}), newConns(e), newState(e), newTraces(e), newItems(itemsCommand{itemsModel.command(e)}), newDocs(docsCommand{docsModel.command(e)}),
		newWorkflow(e), newHost(e), newEngine(e), (&pageServer{env: e}).command(), newHosts(output{e, false, "id name address expires ttl"}),
		newLimits(output{e, false, "name value held waiting full"}),
		(&backup{env: e}).command(), (&restorer{env: e}).command(),
	)
	e.ask.flags(root)
	argCompleter{e}.below(root)
	return root
}

package main

import (
	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom/admin"
)

func newWake() *cobra.Command {
	return &cobra.Command{
		Use:   "wake STORE ACTOR",
		Short: "Wake an actor in the host that has the store open",
		Long: `Wake an actor, so that it does what is due: greenroom host, or a program with a host, runs the
actors of the store. The command ends when the actor is awake; the actor goes to sleep later as
after a call.`,
		Example: "  greenroom wake data counter/lobby",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return doStore(cmd.Context(), target{url: args[0], actor: args[1]}, admin.Wake, &admin.None{}, nil)
		},
	}
}

func newSleep() *cobra.Command {
	return &cobra.Command{
		Use:   "sleep STORE ACTOR",
		Short: "Put an actor to sleep in the host that has the store open",
		Long: `Put an actor to sleep, without waiting until it has been idle for long enough: greenroom host, or
a program with a host, runs the actors of the store. Turns and steps that are under way end first.
The command ends when the actor has left memory; what comes later wakes it again.

Connections that don't hibernate keep the actor awake, and so do turns and steps that take more
than 10 seconds: the command says so then, and the status is 1.`,
		Example: "  greenroom sleep data counter/lobby",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return doStore(cmd.Context(), target{url: args[0], actor: args[1]}, admin.Sleep, &admin.None{}, nil)
		},
	}
}

func newConnsDisconnect() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "disconnect STORE ACTOR ID",
		Short: "End a connection in the host that has the store open",
		Long: `End a connection of an actor, as if its client had gone: the actor is woken if it sleeps, its code is
told, and so is the client, if it is there. greenroom host, or a program with a host, runs the actors of
the store. ID is as "greenroom conns ls" lists it: text, or hex: and bytes in hexadecimal.`,
		Example: "  greenroom conns disconnect data room/1 0b0a9f0e-9c49-4d6c-8ac6-d6d4d9ed5d0c",
		Args:    cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := parseBytes(args[2], "id"); err != nil {
				return err
			}
			in := &admin.DisconnectIn{ID: args[2], Reason: reason}
			return doStore(cmd.Context(), target{url: args[0], actor: args[1]}, admin.Disconnect, in, nil)
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "what the client and the actor's code are told")
	return cmd
}

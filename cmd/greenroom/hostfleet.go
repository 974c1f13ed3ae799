package main

import (
	"log/slog"
	"net"
	"strings"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/host/fleet"
	"github.com/greenroomdb/greenroom/kv"
)

// fleetFlags say how hosts that share a store find each other.
type fleetFlags struct {
	advertise string
	place     string
	insecure  bool
}

// fleetHelp is what greenroom host says about them.
const fleetHelp = `Where several hosts serve a store in PostgreSQL, any of them takes any call: what is asked
of an actor that another host has is forwarded there, once. A host tells the others its
address: that of --listen, or --advertise, such as https://ADDRESS:PORT of a proxy in front
of it that speaks TLS. What hosts send each other is signed and not encrypted: beyond
loopback and without TLS they forward nothing, unless --fleet-insecure is set. An actor that
no host has goes to one that all hosts agree on, or, with --place here, to the one that is
asked.`

// engineFleetHelp is what greenroom engine says about them.
const engineFleetHelp = `Where several engines serve a store in PostgreSQL, any of them takes any request and socket:
those for an actor that another engine has go there, once, and an actor that no engine has
goes to one that its program is connected to. An engine tells the others its address: that
of --listen, or --advertise, such as https://ADDRESS:PORT of a proxy in front of it that
speaks TLS. What engines send each other is signed and not encrypted: beyond loopback and
without TLS they pass nothing on, unless --fleet-insecure is set.`

// flags adds the flags, but for --place, which is a host's.
func (f *fleetFlags) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.advertise, "advertise", "", "`address` and port at which the other hosts of the store reach this one, or https://ADDRESS:PORT; default that of --listen")
	cmd.Flags().BoolVar(&f.insecure, "fleet-insecure", false, "let hosts forward calls without TLS beyond loopback")
}

// check refuses what makes no sense.
func (f *fleetFlags) check() error {
	if f.place != "hash" && f.place != "here" {
		return &usageError{"--place is hash or here, not " + f.place}
	}
	if f.advertise != "" {
		if err := actorstore.CheckAddress(f.advertise); err != nil {
			return &usageError{"--advertise: " + err.Error()}
		}
	}
	return nil
}

// options returns how a host finds the others of its store, nil for one that forwards nothing. listens is the beginning of its URLs.
func (f *fleetFlags) options(engine kv.Engine, listens string, t *tlsFlags, log *slog.Logger) (*fleet.Options, error) {
	if kv.Shared(engine) != nil {
		if f.advertise != "" {
			return nil, &usageError{"--advertise is for a store that several hosts may serve, in PostgreSQL"}
		}
		return nil, nil
	}
	roots, err := t.config()
	if err != nil {
		return nil, err
	}
	o := &fleet.Options{Address: f.advertise, Insecure: f.insecure, TLS: roots, Here: f.place == "here", Logger: log}
	if o.Address == "" {
		o.Address = strings.TrimPrefix(listens, "http://")
		name, _, err := net.SplitHostPort(strings.TrimPrefix(o.Address, "https://"))
		ip := net.ParseIP(name)
		if err != nil || ip == nil || ip.IsUnspecified() || t.cert == "" && !ip.IsLoopback() && !f.insecure {
			log.Warn("greenroom: calls of actors that other hosts have are refused: set --advertise, with TLS or --fleet-insecure", slog.String("listen", listens))
			return nil, nil
		}
	}
	return o, nil
}

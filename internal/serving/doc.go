// Package serving has what the programs have in common that serve a store: greenroom, and those of package serve. It is their command lines, with the flags about addresses,
// tokens, TLS, a fleet, a backup and the API to look into the store; how they listen, serve and end; and the words for what goes wrong.
package serving

// Files, from the top down:
//
//	signals.go run.go host.go tokens.go hostserve.go store.go stats.go service.go system_unix.go system_other.go quickack_linux.go quickack_other.go jwt.go pages.go fleet.go
//	tls.go doc.go backup.go duration.go destination.go bytesize.go args.go words.go admin.go errors.go connlimit.go

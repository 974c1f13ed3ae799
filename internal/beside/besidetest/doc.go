// Package besidetest is the suite that transactions of a data model pass which land in the commits of actors.
package besidetest

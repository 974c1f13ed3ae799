// Key layout:
//
//	key of the actor                   value
//	02 + id                            v4: a connection: id str, parameters data (CBOR), state
//	                                   data (CBOR), subscriptions list<{event str}>, gateway
//	                                   data[4], request data[4], index of the last message in
//	                                   u16, of the last one out u16, path str, headers
//	                                   map<str, str>
//
//	v4 is a u16le version and BARE; v3 is read as well, and has the same bytes. An id is UTF-8.

package conn

import "github.com/greenroomdb/greenroom/actorstore"

// key returns the key of the record of a connection.
func key(id ID) []byte { return appendKey(nil, id) }

// appendKey appends that key to dst.
func appendKey(dst []byte, id ID) []byte { return actorstore.AppendConnection(dst, string(id)) }

// keyID returns the id of the connection whose record lies under key.
func keyID(key []byte) ID { return ID(key[1:]) }

// keyRange returns the half-open range of the keys of all connections.
func keyRange() (start, end []byte) {
	return actorstore.LayoutGreenroom.Range(actorstore.NamespaceConnections) // as in any layout
}

// Package web is usher over HTTP: the JSON API, the streams and the pages.
//
// Handlers are thin: they say who is asking, check the shape of what is asked,
// call one domain package, and turn the answer into JSON. Invariants:
//
//   - every failure leaves through one table (errors.go) as an RFC 9457 problem
//     with a stable code; the text of an uncoded error never reaches a client;
//   - JSON is read strictly (json.go) before anything is bound or digested;
//   - what a token says is checked before a request takes a database connection;
//   - an id that is unknown and an id that is somebody else's get one answer;
//   - GET, HEAD and OPTIONS change nothing.
//
// It decides nothing about inventory, queues or money, and holds no SQL.
package web

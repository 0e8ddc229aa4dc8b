// Package vet computes what fescue vet reports about kinds and about objects, and what fescue render
// shows of them: the objects are checked against their kinds, evaluated once (render.go, stalls.go),
// and live on a healthy cluster in memory (life.go, outlook.go).
//
// It knows kinds that are loaded, and the texts of manifests. It does not know flags, files, processes or clusters.
package vet

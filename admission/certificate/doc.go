// Package certificate keeps the certificate that a webhook server shows: from files that
// someone else renews, or made and rotated by Fescue in a Secret.
//
// All replicas run Run, which loads the certificate and what comes after it; the leader
// also runs Lead, which makes new ones and has the API server trust them before any is
// served. The package does not know webhooks: Lead is given a function that publishes the
// certificates of the authorities to trust.
package certificate

internal import CallBus
package import CallCoordinator
package import CallCore

/// The configuration of a world's coordinators: short leases, so that much happens in a minute.
package struct SimCoordinatorOptions: Sendable {
  package var cluster = "sim"
  package var shardCount = 8
  package var workers = 1
  package var limits = CallLimits()
  /// nil: edges are trusted, as during an upgrade.
  package var authority: CommandAuthority?
  package var checkpointEveryRecords = 40
  /// The largest error of a node's wall clock, either way.
  package var skewMost = Span.milliseconds(1500)
  /// The largest drift of its clock, in millionths, either way.
  package var driftMost = 200

  package init() {}

  package func configuration(nodeID: String) -> CoordinatorConfiguration {
    var configuration = CoordinatorConfiguration(
      nodeID: nodeID, cluster: cluster, version: "simulated")
    configuration.shardCount = shardCount
    configuration.workers = workers
    configuration.workersShareThread = true
    configuration.limits = limits
    configuration.authority = authority
    configuration.sessionTickets = authority == nil ? .offered : .required
    configuration.heartbeatInterval = .milliseconds(200)
    configuration.leaseTimeout = .milliseconds(1200)
    configuration.settleTime = .milliseconds(400)
    configuration.announceTimeout = .milliseconds(600)
    configuration.announceTimeoutWithoutEdges = .milliseconds(400)
    configuration.claimRetry = .milliseconds(300)
    configuration.askForSessionsAgain = [.milliseconds(600), .seconds(2), .seconds(8)]
    configuration.checkpointEveryRecords = checkpointEveryRecords
    configuration.checkpointEveryBytes = 8_000
    configuration.checkpointEvery = .seconds(15)
    configuration.checkpointRetry = .seconds(1)
    configuration.releaseTimeout = .seconds(2)
    configuration.shutdownTimeout = .seconds(5)
    configuration.journal.appendTimeout = .milliseconds(800)
    return configuration
  }
}

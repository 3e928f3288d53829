/// What is done to the cluster while it works.
package enum ChaosKind: String, CaseIterable, Sendable, Hashable {
  case killCoordinator = "kill-coordinator"
  case freezeCoordinator = "freeze-coordinator"
  case killEdge = "kill-edge"
  case freezeEdge = "freeze-edge"
  case killNATS = "kill-nats"
  case freezeNATS = "freeze-nats"
  case cutNATS = "cut-nats"
  case killAllNATS = "kill-all-nats"
  case freezeAllNATS = "freeze-all-nats"
  case cutAllNATS = "cut-all-nats"
  case freezeAllEdges = "freeze-all-edges"
  case killPush = "kill-push"
  case partition
  case rollingRestart = "rolling-restart"
  case drain

  package struct Facts: Sendable {
    /// For --help.
    package var summary: String
    /// From one fault to the next, on average.
    package var intervalSeconds: Double
    /// How long a fault lasts, at most.
    package var lengthSeconds: Double
    /// How long a fault lasts at least; nil: all last `lengthSeconds`.
    package var shortestSeconds: Double?
  }

  /// What happens, and the defaults.
  package var facts: Facts {
    switch self {
    case .killCoordinator:
      Facts(
        summary: "SIGKILL to a coordinator; LENGTH later it starts again", intervalSeconds: 10,
        lengthSeconds: 1)
    case .freezeCoordinator:
      // The default lease is 3 s.
      Facts(
        summary: "SIGSTOP to a coordinator, SIGCONT after LENGTH, past its lease",
        intervalSeconds: 15, lengthSeconds: 4.5)
    case .killEdge:
      Facts(
        summary: "SIGKILL to an edge; LENGTH later it starts again", intervalSeconds: 10,
        lengthSeconds: 1)
    case .freezeEdge:
      Facts(
        summary: "SIGSTOP to an edge, SIGCONT after LENGTH", intervalSeconds: 15,
        lengthSeconds: 4.5)
    case .killNATS:
      Facts(
        summary: "SIGKILL to a nats-server, of three sometimes the leader; LENGTH later it starts",
        intervalSeconds: 15, lengthSeconds: 1)
    case .freezeNATS:
      outage("SIGSTOP to a nats-server, SIGCONT after LENGTH", every: 40)
    case .cutNATS:
      outage("no node reaches a nats-server for LENGTH, in silence or with a reset", every: 40)
    case .killAllNATS:
      outage("SIGKILL to all nats-servers; LENGTH later they start", every: 60)
    case .freezeAllNATS:
      outage("SIGSTOP to all nats-servers, SIGCONT after LENGTH", every: 60)
    case .cutAllNATS:
      outage("no node reaches any nats-server for LENGTH, in silence or with a reset", every: 60)
    case .freezeAllEdges:
      Facts(
        summary: "SIGSTOP to all edges, SIGCONT after LENGTH", intervalSeconds: 60,
        lengthSeconds: 5)
    case .killPush:
      Facts(
        summary: "SIGKILL to a push gateway (with --sleeping); LENGTH later it starts again",
        intervalSeconds: 10, lengthSeconds: 1)
    case .partition:
      Facts(
        summary: "a node is cut off from NATS for LENGTH, in silence or with a reset",
        intervalSeconds: 15, lengthSeconds: 4.5)
    case .rollingRestart:
      Facts(
        summary: "all nodes one after the other: SIGTERM, wait, start; LENGTH between two",
        intervalSeconds: 20, lengthSeconds: 0.5)
    case .drain:
      Facts(
        summary: "callctl drain of a node, LENGTH later callctl resume", intervalSeconds: 20,
        lengthSeconds: 1)
    }
  }

  /// Outages of NATS last 1 s to 15 s.
  private func outage(_ summary: String, every seconds: Double) -> Facts {
    Facts(
      summary: summary, intervalSeconds: seconds, lengthSeconds: 15, shortestSeconds: 1)
  }

  /// A nats-server is away, or all are.
  package var isOfNATS: Bool {
    oneServerKind != nil || self == .killNATS || self == .freezeNATS || self == .cutNATS
  }

  /// What does to one nats-server what this kind does to all.
  package var oneServerKind: ChaosKind? {
    switch self {
    case .killAllNATS: .killNATS
    case .freezeAllNATS: .freezeNATS
    case .cutAllNATS: .cutNATS
    default: nil
    }
  }

  /// An edge keeps its devices' connections, and what is said to them and by them waits.
  var keepsDevicesWaiting: Bool {
    self == .freezeEdge || self == .freezeAllEdges || self == .partition
  }

  /// What a coordinator said before may reach devices only after another has spoken.
  var delaysOldWords: Bool {
    switch self {
    case .freezeCoordinator, .partition, .freezeNATS, .freezeAllNATS, .cutNATS, .cutAllNATS: true
    default: false
    }
  }

  var needsRelays: Bool { self == .partition || self == .cutNATS || self == .cutAllNATS }

  /// A change that somebody announced: no call may feel more of it than a short pause.
  package var isPlanned: Bool { self == .rollingRestart || self == .drain }
}

package enum ChaosKind: String, CaseIterable, Sendable, Hashable {
  case killCoordinator = "kill-coordinator"
  case freezeCoordinator = "freeze-coordinator"
  case killEdge = "kill-edge"
  case freezeEdge = "freeze-edge"
  case killAllEdges = "kill-all-edges"
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
    package var summary: String
    /// From one fault to the next, on average.
    package var intervalSeconds: Double
    /// How long a fault lasts, at most.
    package var lengthSeconds: Double
    /// How long a fault lasts at least; nil: all last `lengthSeconds`.
    package var shortestSeconds: Double?
  }

  /// A summary of the fault, and its defaults. Outages of NATS last 1 s to 15 s.
  package var facts: Facts {
    func facts(
      _ summary: String, every interval: Double, length: Double, atLeast shortest: Double? = nil
    ) -> Facts {
      Facts(
        summary: summary, intervalSeconds: interval, lengthSeconds: length,
        shortestSeconds: shortest)
    }
    func outage(_ summary: String, every interval: Double) -> Facts {
      facts(summary, every: interval, length: 15, atLeast: 1)
    }
    return switch self {
    case .killCoordinator:
      facts("SIGKILL to a coordinator; LENGTH later it starts again", every: 10, length: 1)
    case .freezeCoordinator:
      // The default lease is 3 s.
      facts(
        "SIGSTOP to a coordinator, SIGCONT after LENGTH, past its lease", every: 15, length: 4.5)
    case .killEdge: facts("SIGKILL to an edge; LENGTH later it starts again", every: 10, length: 1)
    case .killAllEdges:
      facts(
        "SIGKILL to all edges at once; LENGTH later they start again, all at once", every: 60,
        length: 1)
    case .freezeEdge: facts("SIGSTOP to an edge, SIGCONT after LENGTH", every: 15, length: 4.5)
    case .killNATS:
      facts(
        "SIGKILL to a nats-server, of three sometimes the leader; LENGTH later it starts",
        every: 15, length: 1)
    case .freezeNATS: outage("SIGSTOP to a nats-server, SIGCONT after LENGTH", every: 40)
    case .cutNATS:
      outage("no node reaches a nats-server for LENGTH, in silence or with a reset", every: 40)
    case .killAllNATS: outage("SIGKILL to all nats-servers; LENGTH later they start", every: 60)
    case .freezeAllNATS: outage("SIGSTOP to all nats-servers, SIGCONT after LENGTH", every: 60)
    case .cutAllNATS:
      outage("no node reaches any nats-server for LENGTH, in silence or with a reset", every: 60)
    case .freezeAllEdges: facts("SIGSTOP to all edges, SIGCONT after LENGTH", every: 60, length: 5)
    case .killPush:
      facts(
        "SIGKILL to a push gateway (with --sleeping); LENGTH later it starts again", every: 10,
        length: 1)
    case .partition:
      facts(
        "a node is cut off from NATS for LENGTH, in silence or with a reset", every: 15,
        length: 4.5)
    case .rollingRestart:
      facts(
        "all nodes one after the other: SIGTERM, wait, start; LENGTH between two", every: 20,
        length: 0.5)
    case .drain: facts("callctl drain of a node, LENGTH later callctl resume", every: 20, length: 1)
    }
  }

  enum Means { case kill, freeze, cut }

  /// The action on processes that is undone later; nil for a planned change.
  var means: Means? {
    switch self {
    case .killCoordinator, .killEdge, .killAllEdges, .killNATS, .killAllNATS, .killPush: .kill
    case .freezeCoordinator, .freezeEdge, .freezeNATS, .freezeAllNATS, .freezeAllEdges: .freeze
    case .cutNATS, .cutAllNATS, .partition: .cut
    case .rollingRestart, .drain: nil
    }
  }

  /// Whether one nats-server is away, or all are.
  package var isOfNATS: Bool {
    oneServerKind != nil || self == .killNATS || self == .freezeNATS || self == .cutNATS
  }

  /// The kind that disturbs one nats-server as this one disturbs all; nil for any other.
  package var oneServerKind: ChaosKind? {
    switch self {
    case .killAllNATS: .killNATS
    case .freezeAllNATS: .freezeNATS
    case .cutAllNATS: .cutNATS
    default: nil
    }
  }

  /// Whether all edges are disturbed at the same time.
  package var isOfAllEdges: Bool { self == .killAllEdges || self == .freezeAllEdges }

  /// Whether operators plan it: a call may notice no more of it than a short pause.
  package var isPlanned: Bool { means == nil }
}

/// A command of a device about a call that was placed. Devices, edges and shards share these.
public enum CallVerb: Sendable, Equatable {
  /// This device rings.
  case alerting
  case answer(description: String)
  case decline(DeclineScope)
  /// This device is busy; the others ring on.
  case busy
  case cancel
  case connected
  case hangUp
  /// This device takes an answered call over from another one of its user.
  indirect case pull(PullRequest)
  /// This device hands its side of an answered call over to another user.
  indirect case transfer(TransferRequest)
  /// This device keeps its side, unless a device has answered the transfer already.
  case cancelTransfer
  case signal(SignalKind, body: String)
  /// The caller's device is back, on this session.
  case resume
  case query

  public var name: String {
    switch self {
    case .alerting: "alerting"
    case .answer: "answer"
    case .decline: "decline"
    case .busy: "busy"
    case .cancel: "cancel"
    case .connected: "connected"
    case .hangUp: "hangUp"
    case .pull: "pull"
    case .transfer: "transfer"
    case .cancelTransfer: "cancelTransfer"
    case .signal: "signal"
    case .resume: "resume"
    case .query: "query"
    }
  }
}

extension CallVerb {
  /// Whether a device of the callee without a leg gets one by this command.
  var joins: Bool {
    switch self {
    case .alerting, .answer, .decline, .busy: true
    case .cancel, .connected, .hangUp, .pull, .transfer, .cancelTransfer, .signal, .resume, .query:
      false
    }
  }

  /// How long the reply may wait, to share an append.
  var urgency: Outcome.Urgency {
    switch self {
    case .connected: .slow
    case .alerting, .hangUp: .relaxed
    case .signal: .lazy
    case .answer, .decline, .busy, .cancel, .pull, .transfer, .cancelTransfer, .resume, .query:
      .urgent
    }
  }
}

/// A write of a registration that is on its way to the store.
struct PendingStore: Sendable {
  enum What: Sendable {
    case register(Registration, removed: [DeviceID])
    case remove(UserKey, DeviceID)
    /// Without a token that memory does not have any more. `claim`: the token of a claim in this shard that waits
    /// for it. `gone`: the token is nobody's any more.
    case tokenRemoved(UserKey, DeviceID, claim: UInt64?, gone: GoneToken?)
    /// Only the time changed at which the device was seen.
    case seen
  }
  var what: What
  /// nil where nobody asked.
  var reply: PendingReply?
}

/// A push token that its provider does not know any more (R12).
struct GoneToken: Sendable {
  var fingerprint: String
  /// Claims made later stay.
  var at: Timestamp
}

/// Where a later reply goes.
struct PendingReply: Sendable, Equatable {
  var session: SessionRef
  var request: UInt64

  /// nil: none is wanted.
  init?(_ command: Command) {
    guard command.request != 0 else { return nil }
    session = command.session
    request = command.request
  }

  func send(_ reply: Reply, _ turn: inout Turn) {
    turn.perform(.reply(session, request: request, reply))
  }
}

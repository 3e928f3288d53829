/// Where a call stands, with what exists only there.
///
/// The payloads hold plain values, so a change takes one out and puts it back. Legs, signals and deliveries grow, so
/// they are in `Call` itself, where they change in place. The large payloads are indirect: otherwise each read of the
/// stage would copy them. `Call.swift` lists the transitions.
enum CallStage: Sendable {
  case ringing(Ringing)
  indirect case answered(Conversation)
  indirect case ended(Ending)
}

extension CallStage {
  /// From the placing until a device answers or the call ends.
  struct Ringing: Sendable {
    /// The caller's session broke: the call is cancelled unless the caller is back by then.
    var callerLostUntil: Timestamp?
    /// No leg can be reached: until when one may come back. Not journalled; a new owner counts anew.
    var legsLostUntil: Timestamp?
    /// Until when the callee may have devices that the shard does not know of, because an edge is missing.
    /// Not journalled; a new owner counts anew.
    var sessionsUnknownUntil: Timestamp?
    /// The user has a device, though perhaps none that rings. Not journalled; a new owner reads it again.
    var calleeHasDevices = true
    /// When the callee's rules let the call go on to others. Not journalled; a new owner reads it again.
    var noAnswerAt = Timestamp.distantFuture
    /// When the callee's other devices ring, too. Not journalled; a new owner reads it again.
    var othersAt = Timestamp.distantFuture
    /// All invited devices had acknowledged their invites at one time, and the latency was recorded then.
    var isRingLatencyMeasured = false
  }

  /// From the answer until the end.
  struct Conversation: Sendable {
    let answer: AnsweredFacts
    /// The index of the leg that won, or took the call over since.
    var winner: Int
    /// A side's session broke: until when it may come back.
    var callerLostUntil: Timestamp?
    var winnerLostUntil: Timestamp?
    /// The winner's device has a new session, and the end of the former one was not reported: until when the device has
    /// to acknowledge a delivery or send a command about the call. Not journalled; a new owner asks anew.
    var winnerSilentUntil: Timestamp?
    var isCallerConnected = false
    var isWinnerConnected = false
    /// Until when both sides have to report that they are connected (R15). Later than the answer's own
    /// deadline where they learned of the answer late; that is not journalled.
    var connectDeadline: Timestamp

    init(_ answer: AnsweredFacts, winner: Int, callerLostUntil: Timestamp?) {
      self.answer = answer
      self.winner = winner
      self.callerLostUntil = callerLostUntil
      connectDeadline = answer.connectDeadline
    }

    var isConnected: Bool { isCallerConnected && isWinnerConnected }
    /// When the call ends because the winner's device is missing; nil: it is there.
    var winnerDueAt: Timestamp? { winnerLostUntil ?? winnerSilentUntil }
  }

  /// From the end until the call is forgotten.
  struct Ending: Sendable {
    let facts: EndedFacts
    /// The answer, without the description; nil: the call was not answered.
    let answer: AnsweredFacts?
    /// Every device acknowledged the end.
    var isSettled = false
    /// The journal has that all is stored that is to be stored of it.
    var isRecorded = false
    /// The parts that this owner knows to be stored.
    var stored: StoredParts = []
  }
}

// Not inlined: Swift 6.3.1's optimiser crashes (CopyPropagation, "found ownership error") where two of these
// projections come together in one function.
extension Call {
  @inline(never)
  var isRinging: Bool {
    if case .ringing = stage { true } else { false }
  }

  @inline(never)
  var isEnded: Bool {
    if case .ended = stage { true } else { false }
  }

  /// Whether a device hands its side over, and no device has taken it yet.
  var isTransferring: Bool { !transfers.isEmpty && transfers[transfers.count - 1].isPending }

  /// Whether the caller's side is handed over.
  var isCallerTransferring: Bool {
    isTransferring && transfers[transfers.count - 1].ofCaller
  }

  /// The pending transfer.
  var transfer: Transfer? { isTransferring ? transfers[transfers.count - 1] : nil }

  /// Whether devices ring, because the call or the pending transfer of a side is not answered.
  var isSearching: Bool { isTransferring || isRinging }

  /// Whether a device takes part in the present ringing.
  func isInRound(_ leg: Int) -> Bool {
    isTransferring ? Int(legs[leg].round) == transfers.count : isRinging
  }

  /// Whether every device acknowledged the end.
  @inline(never)
  var isSettled: Bool {
    if case .ended(let ending) = stage { ending.isSettled } else { false }
  }

  /// The index of the leg that has the call, while it is answered.
  @inline(never)
  var winner: Int? {
    if case .answered(let conversation) = stage { conversation.winner } else { nil }
  }

  /// The answer, also after the end.
  var answer: AnsweredFacts? {
    switch stage {
    case .ringing: nil
    case .answered(let conversation): conversation.answer
    case .ended(let ending): ending.answer
    }
  }

  /// Until when the caller, whose session broke, may come back.
  var callerLostUntil: Timestamp? {
    get {
      switch stage {
      case .ringing(let ringing): ringing.callerLostUntil
      case .answered(let conversation): conversation.callerLostUntil
      case .ended: nil
      }
    }
    set {
      changeRinging { $0.callerLostUntil = newValue }
      changeConversation { $0.callerLostUntil = newValue }
    }
  }

  /// While it rings, and no leg can be reached: until when one may come back.
  var legsLostUntil: Timestamp? {
    get {
      if isTransferring { return transfers[transfers.count - 1].legsLostUntil }
      if case .ringing(let ringing) = stage { return ringing.legsLostUntil }
      return nil
    }
    set {
      if isTransferring { transfers[transfers.count - 1].legsLostUntil = newValue }
      changeRinging { $0.legsLostUntil = newValue }
    }
  }
}

package import CallCore
internal import CallWire

/// A reply of the app's hook about a call.
package enum HookReply: Sendable, Equatable {
  /// - name: the caller's name; empty: it is as it was.
  case allow(name: String)
  /// These users ring in place of the callee.
  case forward([String])
  case refuse(CallError.Code)
  /// It gave no answer, so the call goes on without it.
  case noAnswer
}

/// The rule for the app's hook (docs/hooks.md): what it says of a call is done, and the caller learns that.
///
/// A caller's device may place a call several times, at several edges, and each one asks. A call that exists is not refused
/// by a later answer, and keeps its name and its way; and an edge whose hook is away asks nothing. So only a call that was
/// sent once and asked about once has to be as the hook said. Of the others somebody has to have said what is done.
extension HistoryChecker {
  private var knowsHook: Bool { hasHook && sight.contains(.hook) }

  mutating func hookSaid(_ reply: HookReply, of call: CallID) {
    calls[call, default: Facts()].hookReplies.append(reply)
  }

  /// A call is placed. Where it goes on at once is decided with it, so the same record says that.
  mutating func placedByHook(
    _ placed: PlacedFacts, _ record: JournalRecord, _ facts: Facts, _ call: CallID
  ) throws(HistoryViolation) {
    guard knowsHook, !facts.isForServer, facts.placesSent == 1, facts.hookReplies.count == 1,
      let reply = facts.hookReplies.first
    else { return }
    judged[.hookFollowed, default: 0] += 1
    switch reply {
    case .refuse(let code):
      try require(
        false, .hookFollowed, call, "it is placed, and the hook refused it as \(code.name)")
    case .forward(let users):
      let goesOn = record.entries.contains { entry in
        guard entry.call == call, case .diverted(let diverted) = entry.change else { return false }
        return diverted.reason == .hook
      }
      try require(
        goesOn || fresh(users, placed).isEmpty, .hookFollowed, call,
        "it rings \(placed.callee.user), and the hook forwarded it to \(users)")
    case .allow(let name):
      try require(
        name.isEmpty || placed.caller.name.hasBytes(of: name), .hookFollowed, call,
        "its caller is named \"\(placed.caller.name)\", and the hook said \"\(name)\"")
    case .noAnswer: break
    }
  }

  /// A call goes on because of the hook: to whom the hook named for it.
  func divertedByHook(
    _ diverted: DivertedFacts, _ facts: Facts, _ call: CallID
  ) throws(HistoryViolation) {
    guard knowsHook, diverted.reason == .hook, let placed = facts.placed else { return }
    let isSaid = facts.hookReplies.contains {
      if case .forward(let users) = $0 { fresh(users, placed) == diverted.to } else { false }
    }
    try require(
      isSaid, .hookFollowed, call,
      "it is forwarded to \(diverted.to), and the hook did not say so")
  }

  /// The caller's device hears that the app refuses its call.
  mutating func refusedByHook(
    _ command: ClientCommand, _ code: CallError.Code
  ) throws(HistoryViolation) {
    guard knowsHook, code.isOfHook, case .place(let address, _) = command else { return }
    judged[.hookFollowed, default: 0] += 1
    try require(
      calls[address.call]?.hookReplies.contains(.refuse(code)) ?? false, .hookFollowed,
      address.call, "its caller hears \(code.name), and the hook did not say so")
  }

  /// Whether the hook gave a call's caller a name.
  func isNamedByHook(_ name: String, _ facts: Facts) -> Bool {
    !name.isEmpty && facts.hookReplies.contains(.allow(name: name))
  }

  /// The users to whom a call may be forwarded: neither its caller nor its callee, and each of them once.
  private func fresh(_ users: [String], _ placed: PlacedFacts) -> [String] {
    users.reduce(into: []) { fresh, user in
      let taken = fresh + [placed.caller.user, placed.callee.user]
      if !taken.contains(where: { $0.hasBytes(of: user) }) { fresh.append(user) }
    }
  }
}

extension CallError.Code {
  /// Whether the app's hook refuses a call with it.
  var isOfHook: Bool {
    switch self {
    case .refusedByApp, .unknownUser, .userUnavailable: true
    default: false
    }
  }
}

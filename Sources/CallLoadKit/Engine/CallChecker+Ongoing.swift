package import CallCore
import CallJudge

/// Keeps what devices are shown of the calls that their users are in (R21). Each state is compared with the one before
/// it. An entry that joined or left is noted with the call that it is about, and judged with that.
struct OngoingBook: Sendable {
  /// A device that is shown its user's calls, on one connection.
  struct Watcher: Sendable {
    var since: Timestamp
    var state: OngoingCalls
  }

  fileprivate(set) var watchers: [Int: Watcher] = [:]
  fileprivate(set) var result: OngoingResult?

  /// Since when a device has been shown its user's calls without a gap; nil: it is not.
  func since(_ device: Int) -> Timestamp? { watchers[device]?.since }
}

/// A device's view of one call.
struct OngoingSight: Sendable {
  var device: Int
  var at: Timestamp
  /// nil: the call is no longer listed.
  var entry: OngoingCall?
}

extension CallChecker {
  /// A connection begins on which a device is shown its user's calls.
  package mutating func beginsToWatch(_ device: Int, _ state: OngoingCalls, at now: Timestamp) {
    let before = ongoing.watchers[device]?.state.calls ?? []
    ongoing.watchers[device] = OngoingBook.Watcher(since: now, state: state)
    shown(device, state, instead: before, at: now)
  }

  mutating func endsToWatch(_ device: Int) { ongoing.watchers[device] = nil }

  /// A state on the present connection, or on the one before it.
  mutating func shown(_ device: Int, _ state: OngoingCalls, at now: Timestamp) {
    guard let watcher = ongoing.watchers[device] else { return }
    let last = watcher.state
    guard state.version > last.version else {
      let isOld = state.version < last.version || state.calls != last.calls
      // A device that moves has two connections for a moment.
      if isOld, watcher.since + Self.skew < now {
        broken(
          .ongoingWrongly, count: 1,
          "seed \(seed): \(roster.party(device).text) was shown version \(state.version) of its "
            + "user's calls after \(last.version)")
      }
      return
    }
    ongoing.watchers[device]?.state = state
    shown(device, state, instead: last.calls, at: now)
  }

  private mutating func shown(
    _ device: Int, _ state: OngoingCalls, instead before: [OngoingCall], at now: Timestamp
  ) {
    ongoing.result = ongoing.result ?? OngoingResult()
    ongoing.result?.states += 1
    for entry in state.calls where !before.contains(entry) {
      ongoing.result?.calls += 1
      if records[entry.call] == nil { shownLate(device, entry.call, at: now) }
      change(entry.call) { $0.saw(OngoingSight(device: device, at: now, entry: entry)) }
    }
    for call in Set(before.map(\.call)) where !state.calls.contains(where: { $0.call == call }) {
      change(call) { $0.saw(OngoingSight(device: device, at: now, entry: nil)) }
    }
  }

  /// The call is judged, or was not placed.
  private mutating func shownLate(_ device: Int, _ call: CallID, at now: Timestamp) {
    // After a fault a call is listed until its caller's device is back, for a minute at most.
    guard timeline.isEmpty || remembered[call] == nil else { return }
    broken(
      .ongoingWrongly, of: call,
      "call \(call), seed \(seed): \(roster.party(device).text) was shown it as ongoing long after "
        + "its end, or nobody placed it")
  }
}

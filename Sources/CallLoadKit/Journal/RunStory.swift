import CallCore
import CallJudge
import CallWire

/// The last events of a run, which hold the story of a call that broke a rule.
struct RunStory: Sendable {
  private var events: [(at: Timestamp, item: RunJudge.Item)] = []

  private static let most = 60_000
  private static let linesMost = 40

  mutating func note(_ item: RunJudge.Item, at time: Timestamp) {
    if events.count == Self.most { events.removeFirst(Self.most / 2) }
    events.append((time, item))
  }

  /// The call's last lines, in seconds before the last one.
  func lines(of call: CallID) -> [String] {
    let own = events.flatMap { event in event.item.lines(of: call).map { (event.at, $0) } }
    guard let end = own.last?.0 else { return [] }
    return own.suffix(Self.linesMost).map { at, text in
      "\(Units.fixed((at - end).seconds, 3)) s  \(text)"
    }
  }
}

extension RunJudge.Item {
  fileprivate func lines(of call: CallID) -> [String] {
    switch self {
    case .record(let read):
      return read.record.entries.filter { $0.call == call }.map {
        "journal \(read.shard), epoch \(read.record.epoch): \($0.change.text)"
      }
    case .event(.sent(let who, _, let frame)) where frame.command.address?.call == call:
      return ["\(who)  \(TraceLine.Event.sent(frame.command).text)"]
    case .event(.received(let who, _, .delivery(let delivery))) where delivery.call == call:
      return ["\(who)  \(TraceLine.Event.delivered(delivery).text)"]
    case .event(.received(let who, _, .reply(_, let reply))) where reply.call == call:
      return ["\(who)  \(TraceLine.Event.replied(reply).text)"]
    case .event, .gap: return []
    }
  }
}

extension JournalEntry.Change {
  fileprivate var text: String {
    switch self {
    case .ended(let end): "ended, \(end.reason.name)\(end.by.map { " by \($0.text)" } ?? "")"
    case .answered(let answer): "answered by \(answer.by.text)"
    case .moved(let move): "moved to \(move.to.text)"
    case .diverted(let diverted): "diverted to \(diverted.to.joined(separator: ", "))"
    default: String("\(self)".prefix { $0 != "(" })
    }
  }
}

extension ServerReply {
  fileprivate var call: CallID? {
    switch self {
    case .call(let state), .answer(_, let state): state.call
    default: nil
    }
  }
}

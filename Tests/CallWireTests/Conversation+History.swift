import CallCore
import CallWire

/// The store of histories, and what a coordinator does with it.
extension Conversation {
  mutating func perform(_ effect: HistoryEffect) throws {
    var outcome = Outcome()
    switch effect {
    case .store(let call):
      for (user, entry) in machine.historyEntries(of: call) {
        add(.entry(entry), of: user)
        machine.historyChanged(user, now: now, into: &outcome)
      }
      machine.stored(.history, of: [call], now: now, into: &outcome)
    case .read(let user, _):
      machine.historyRead(user, log(of: user).state, now: now, into: &outcome)
    case .show(let session, let state):
      tell(session, .history(state))
      guard let user = sessions[session.number]?.user else { return }
      machine.handle(
        Command(
          session: session, request: 0, user: user, device: "", callee: user,
          body: .ack([
            Acknowledgement(call: Acknowledgement.historyID, version: state.cursor.sequence)
          ])), now: now, into: &outcome)
    case .answer(let session, let request, let user, let command):
      let page = answer(command, of: user)
      if let device = requests.removeValue(forKey: session.number) {
        hear(device, answer(.history(page), device))
      } else {
        tell(session, .reply(id: request, .history(page)))
      }
      machine.historyChanged(user, now: now, into: &outcome)
    }
    try perform(&outcome)
  }

  private mutating func answer(_ command: HistoryCommand, of user: UserKey) -> HistoryPage {
    switch command {
    case .list(let before, let limit):
      return log(of: user).page(
        before: before, limit: limit == 0 ? HistoryCommand.limitStandard : limit)
    case .markRead(let cursor):
      if let mark = log(of: user).mark(upTo: cursor) { add(.read(upTo: mark), of: user) }
      let log = log(of: user)
      return HistoryPage(state: log.state, readUpTo: log.readUpTo)
    case .changed: return HistoryPage()
    }
  }

  private mutating func add(_ message: HistoryMessage, of user: UserKey) {
    lastHistory += 1
    histories[user, default: []].append((HistoryCursor(lastHistory), message))
  }

  private func log(of user: UserKey) -> HistoryLog {
    HistoryLog(histories[user] ?? [], entriesMax: 1000)
  }
}

internal import CallmeshClient
internal import FoundationEssentials

/// One line of output: something that happened, or the answer to an order. With `--json` it is written as one JSON object;
/// what does not apply is left out.
package struct PhoneLine: Encodable, Equatable, Sendable {
  /// `attached`, `incoming`, `answered`, `ended` and so on; `wait` waits for these names.
  package var event: String
  /// The number of the call on this phone, from 1.
  package var call: Int?
  package var id: String?
  package var state: String?
  /// The other side's user.
  package var peer: String?
  package var name: String?
  /// The other side's device, or the one that caused it.
  package var device: String?
  package var video: Bool?
  package var reason: String?
  package var missed: Bool?
  package var text: String?
  package var code: Int?
  package var seconds: Double?
  package var unread: Int?
  /// The number of the entry in a list, from 1.
  package var entry: Int?
  package var at: Double?

  package init(_ event: String) { self.event = event }

  package var json: String {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    return (try? encoder.encode(self)).map { String(decoding: $0, as: UTF8.self) } ?? "{}"
  }

  /// For a person.
  package var words: String {
    var words: [String] = []
    if let call { words.append("[\(call)]") }
    if let entry { words.append("\(entry).") }
    words.append(event)
    if let name, !name.isEmpty { words.append(name) }
    if let peer, !peer.isEmpty { words.append(name?.isEmpty == false ? "(\(peer))" : peer) }
    if let device, !device.isEmpty { words.append("on \(device)") }
    if video == true { words.append("with video") }
    if let reason { words.append(reason) }
    if missed == true { words.append("(missed)") }
    if let state { words.append("is \(state)") }
    if let code { words.append("\(code)") }
    if let text { words.append(text) }
    if let seconds { words.append("in \(seconds) s") }
    if let unread { words.append("\(unread) unread") }
    return words.joined(separator: " ")
  }
}

extension PhoneLine {
  init(_ event: String, _ number: Int, _ call: Call) {
    self.init(event)
    (self.call, id) = (number, call.id.description)
    peer = call.peer?.user ?? (call.role == .caller ? call.callee : nil)
    name = call.peer.flatMap { $0.name.isEmpty ? nil : $0.name }
    if call.video { video = true }
  }

  init(_ error: CallmeshError, event: String = "error") {
    self.init(event)
    (code, text) = (Int(error.code.rawValue), error.message)
  }

  mutating func by(_ party: Party?) {
    device = party.map { $0.deviceName.isEmpty ? $0.device.text : $0.deviceName }
  }

  /// The line about an event of a call; nil: nothing is shown.
  init?(_ event: Call.Event, _ number: Int, _ call: Call) {
    switch event {
    case .state, .answering, .ringsUntil: return nil
    case .incoming: self.init("incoming", number, call)
    case .placed: self.init("placed", number, call)
    case .connected: self.init("connected", number, call)
    case .ringing(let by):
      self.init("ringing", number, call)
      self.by(by)
    case .answered(let by, _, let isHere):
      self.init("answered", number, call)
      if !isHere { self.by(by) }
    case .moved(let to, _):
      self.init("moved", number, call)
      by(to)
    case .transfer(let to, let by, let reason):
      self.init("transfer", number, call)
      (text, self.reason) = ("to \(to)", reason?.name)
      self.by(by)
    case .ended(let end):
      self.init("ended", number, call)
      (reason, missed) = (end.reason.name, end.missed ? true : nil)
      (code, text) = (end.error.map { Int($0.code.rawValue) }, end.error?.message)
      by(end.by)
    }
  }
}

import CallCore
import CallWire
import Foundation

/// Plays a conversation of docs/device-protocol.md against the rules themselves: what devices say
/// goes through the codec into a real `ShardMachine`, and what it tells them comes back as the lines
/// that the document has to show.
///
/// Lines are `device -> frame`, `device <- frame`, and `# …` for what else happens. A device's user
/// is its name up to the dash.
struct Conversation {
  struct Failure: Error, CustomStringConvertible { var description: String }

  struct Session {
    var number: UInt64
    var device: DeviceID
    var user: UserKey
    var deviceName: String
    /// The calls that it placed or resumed, for when it breaks.
    var calls: [(callee: UserKey, call: CallID)] = []
    /// The calls that rang there, for its edge to see that calls cross.
    var rung: [(call: CallID, caller: Party)] = []
  }

  var machine: ShardMachine
  var now = Timestamp(microseconds: 1_790_000_000_000_000)
  var lastSession: UInt64 = 0
  var sessions: [UInt64: Session] = [:]
  /// Who waits for the answer to an HTTP request.
  var requests: [UInt64: DeviceID] = [:]
  var current: [DeviceID: UInt64] = [:]
  /// The entries that the bucket of tokens would hold, by fingerprint.
  var owners: [String: TokenOwner] = [:]
  /// The users' histories, as the store would hold them.
  var histories: [UserKey: [(cursor: HistoryCursor, message: HistoryMessage)]] = [:]
  var lastHistory: UInt64 = 0
  /// The app's terms in the file of keys.
  var terms = AppTerms()
  /// To whom the app's hook sends calls on; empty: it lets them through, or there is none.
  var hookForwards: [String] = []
  let acksAreLeftOut: Bool
  var lines: [String] = []

  static let edge: UInt64 = 0x51a7
  static let names = [
    "ann-phone": "Ann's phone", "bob-phone": "Bob's phone", "bob-tablet": "Bob's tablet",
    "bob-watch": "Bob's watch", "carol-phone": "Carol's phone",
  ]

  /// The whole transcript that belongs to the document's lines.
  static func play(_ script: [String], acksAreLeftOut: Bool) throws -> [String] {
    var conversation = Conversation(acksAreLeftOut: acksAreLeftOut)
    for line in script where !line.contains(" <- ") { try conversation.take(line) }
    return conversation.lines
  }

  init(acksAreLeftOut: Bool) {
    self.acksAreLeftOut = acksAreLeftOut
    machine = ShardMachine(shard: 0, epoch: 1, limits: CallLimits())
    var outcome = Outcome()
    machine.begin(now: now, into: &outcome)
  }

  mutating func take(_ line: String) throws {
    lines.append(line)
    if line.hasPrefix("# ") { return try happen(String(line.dropFirst(2))) }
    let sides = line.split(separator: " -> ", maxSplits: 1)
    guard sides.count == 2 else { throw Failure(description: "unreadable: \(line)") }
    let device = DeviceID(String(sides[0].split(separator: " ")[0]))
    let text = String(sides[1])
    try pass(.milliseconds(20))
    if text.hasPrefix("{") {
      try say(device, text)
    } else {
      try request(device, text.split(separator: " ", maxSplits: 2).map(String.init))
    }
  }

  // MARK: What happens beside frames

  mutating func happen(_ what: String) throws {
    let words = what.split { " ,".contains($0) }.map(String.init)
    if words.count >= 3, words[1].hasPrefix("second"), words[2].hasPrefix("pass") {
      guard let seconds = Int64(words[0]) else { throw Failure(description: what) }
      return try pass(.seconds(seconds))
    }
    if what.contains("loses its connection") { return try lose(DeviceID(words[0])) }
    if what.contains("are attached") || what.contains("is attached") {
      for word in words where word.contains("-") { attachSilently(DeviceID(word)) }
    }
    if what.contains(#""secondCalls":"busy""#) { terms.secondCalls = .busy }
    if what.contains("hook answers") { hookForwards = try Self.forwards(what) }
    // Everything else is for the reader.
  }

  /// To whom an answer of the app's hook sends calls on; the line has it from the first brace to the last one.
  private static func forwards(_ line: String) throws -> [String] {
    struct Answer: Decodable {
      var action: String
      var to: [String]?
    }
    guard let start = line.firstIndex(of: "{"), let end = line.lastIndex(of: "}") else {
      throw Failure(description: line)
    }
    let answer = try JSONDecoder().decode(Answer.self, from: Data(line[start...end].utf8))
    return answer.action == "forward" ? answer.to ?? [] : []
  }

  mutating func pass(_ span: Span) throws {
    let end = now + span
    while machine.nextDeadline <= end {
      now = max(now, machine.nextDeadline)
      var outcome = Outcome()
      machine.fire(now: now, into: &outcome)
      try perform(&outcome)
    }
    now = end
  }

  mutating func attachSilently(_ device: DeviceID) {
    open(device, name: Self.names[device.text] ?? "")
    var outcome = Outcome()
    send(device, request: 0, .attach(Attach(deviceName: Self.names[device.text] ?? "")), &outcome)
  }

  mutating func open(_ device: DeviceID, name: String) {
    lastSession += 1
    let user = UserKey(app: "demo", user: String(device.text.split(separator: "-")[0]))
    sessions[lastSession] = Session(
      number: lastSession, device: device, user: user, deviceName: name)
    current[device] = lastSession
  }

  /// The edge replies, closes, and says farewell.
  mutating func detach(_ device: DeviceID, _ id: UInt64) throws {
    hear(device, Self.text(DeviceCodec.json.encode(ServerFrame.reply(id: id, .done))))
    hear(device, "close 1000")
    try lose(device, graceful: true)
  }

  mutating func lose(_ device: DeviceID, graceful: Bool = false) throws {
    guard let number = current.removeValue(forKey: device),
      let session = sessions.removeValue(forKey: number)
    else { throw Failure(description: "\(device) is not attached") }
    var outcome = Outcome()
    let ref = SessionRef(edge: Self.edge, number: number)
    machine.handle(
      Command(
        session: ref, request: 0, user: session.user, device: device, callee: session.user,
        body: .sessionClosed(graceful: graceful)), now: now, into: &outcome)
    for placed in session.calls {
      machine.handle(
        Command(
          session: ref, request: 0, user: session.user, device: device, callee: placed.callee,
          body: .callerGone([placed.call])), now: now, into: &outcome)
    }
    try perform(&outcome)
  }
}

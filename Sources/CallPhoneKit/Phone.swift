package import CallmeshClient

/// A telephone in a terminal: a device, and the orders of its user.
package actor Phone {
  package enum Ending: Int32, Sendable {
    /// The user has quit, or there are no more orders.
    case done = 0
    /// The cluster refused the device.
    case refused = 1
    /// An event that a script waited for did not come.
    case waitedInVain = 2
  }

  /// The reaction of the phone itself to a call that rings.
  package enum Reaction: String, Sendable, CaseIterable { case ring, answer, decline, busy }

  let device: Device
  private let reaction: Reaction
  let description: String
  private let media: (any PhoneMedia)?
  private let print: @Sendable (PhoneLine) -> Void
  let log = EventLog()
  var numbers: [(number: Int, call: Call)] = []
  private var lastNumber = 0
  var ending = Ending.done

  /// - Parameters:
  ///   - description: the session description of calls and answers.
  ///   - media: plays something while a call is answered; nil: nothing.
  ///   - print: takes each line of output.
  package init(
    _ device: Device, reaction: Reaction = .ring, description: String = "",
    media: (any PhoneMedia)? = nil, print: @escaping @Sendable (PhoneLine) -> Void
  ) {
    (self.device, self.reaction, self.description) = (device, reaction, description)
    (self.media, self.print) = (media, print)
  }

  /// Signs in, carries out orders, and signs out.
  /// - Parameter orders: lines; the phone ends with them, or with `quit`.
  package func run(_ orders: some AsyncSequence<String, Never> & Sendable) async -> Ending {
    let events = device.events
    device.start()
    await withTaskGroup(of: Void.self) { group in
      group.addTask { await self.follow(events) }
      group.addTask { await self.obey(orders) }
      // Whichever ends first ends the other.
      await group.next()
      device.stop()
      group.cancelAll()
    }
    media?.stop()
    return ending
  }

  // MARK: What happens

  private func follow(_ events: EventSequence<Device.Event>) async {
    for await event in events {
      happened(event)
      if case .refused = event {
        ending = .refused
        return
      }
    }
  }

  private func happened(_ event: Device.Event) {
    switch event {
    case .attached(let session):
      tell("attached") { ($0.peer, $0.device) = (session.user, session.device) }
    case .detached(let retryIn):
      tell("detached") { $0.seconds = Double(retryIn.components.seconds) }
    case .notTrusted(let problem): tell("notTrusted") { $0.text = problem }
    case .refused(let error): tell(PhoneLine(error, event: "refused"))
    case .tokenFailed(let error): tell(PhoneLine(error, event: "tokenFailed"))
    case .incoming(let call): react(call)
    case .taken(let call): _ = number(call)
    case .call(let call, let event): happened(event, call)
    case .history(let state): tell("history") { $0.unread = Int(state.unread) }
    case .notice(let notice): tell("notice") { $0.text = "\(notice.kind.name) \(notice.message)" }
    case .ongoing(let calls): tell("ongoing") { $0.text = "\(calls.count) calls" }
    case .wanted, .ended, .relays: break
    }
  }

  private func happened(_ event: Call.Event, _ call: Call) {
    // The state comes behind each event, also behind the end, with which the call has lost its number.
    if case .state = event { return }
    let number = number(call)
    if case .answered = event { answered(call, number) }
    if case .ended = event { ended(call) }
    if let line = PhoneLine(event, number, call) { tell(line) }
  }

  /// Nothing connects here, so the call is connected as soon as it is answered.
  private func answered(_ call: Call, _ number: Int) {
    media?.start(peer: call.peer?.user ?? call.callee)
    Task { try? await call.connected() }
  }

  private func ended(_ call: Call) {
    numbers.removeAll { $0.call === call }
    if numbers.isEmpty { media?.stop() }
  }

  private func react(_ call: Call) {
    let description = description
    _ = number(call)
    // Each ends with its reply.
    Task { [reaction] in
      switch reaction {
      case .ring: try? await call.alerting()
      case .answer: _ = try? await call.answer(description)
      case .decline: try? await call.decline()
      case .busy: try? await call.busy()
      }
    }
  }

  private func listen(_ call: Call, _ number: Int) async {
    for await signal in call.signals where signal.kind == .information {
      var line = PhoneLine("said", number, call)
      line.text = signal.body
      tell(line)
    }
  }

  func number(_ call: Call) -> Int {
    if let known = numbers.first(where: { $0.call === call }) { return known.number }
    lastNumber += 1
    let number = lastNumber
    numbers.append((number, call))
    // Ends with the call.
    Task { await listen(call, number) }
    return number
  }

  func tell(_ event: String, _ fill: (inout PhoneLine) -> Void) {
    var line = PhoneLine(event)
    fill(&line)
    tell(line)
  }

  func tell(_ line: PhoneLine) {
    print(line)
    log.note(line.event)
  }
}

/// Something to hear while a call is answered.
package protocol PhoneMedia: Sendable {
  func start(peer: String)
  func stop()
}

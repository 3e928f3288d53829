internal import CallmeshClient

// Orders to the phone.
extension Phone {
  func obey(_ orders: some AsyncSequence<String, Never> & Sendable) async {
    for await line in orders {
      do {
        let order = try PhoneOrder(line)
        if order == .quit { return }
        guard try await obey(order) else { return }
      } catch let error as CallmeshError {
        tell(PhoneLine(error))
      } catch {
        tell("error") { $0.text = "\(error)" }
      }
    }
  }

  /// - Returns: whether to go on.
  private func obey(_ order: PhoneOrder) async throws -> Bool {
    switch order {
    case .call(let user, let video): try await place(user, video: video)
    case .answer(let number):
      _ = try await find(number, "rings") { $0.state == .ringing && $0.role == .callee }
        .answer(description)
    case .decline(let number):
      try await find(number, "rings") { $0.state == .ringing && $0.role == .callee }.decline()
    case .hangUp(let number): try await find(number, "is there") { _ in true }.finish()
    case .pull(let entry): try await pull(entry)
    case .transfer(let user): try await talking().transfer(user)
    case .cancelTransfer: try await talking().cancelTransfer()
    case .say(let text): try await talking().sendInformation(text)
    case .calls:
      for (number, call) in numbers {
        var line = PhoneLine("call", number, call)
        line.state = call.state.rawValue
        tell(line)
      }
    case .ongoing: listOngoing()
    case .history(let count): try await listHistory(count)
    case .read:
      let cursor = try await device.history(limit: 1).state.cursor
      let state = try await device.markHistoryRead(upTo: cursor).state
      tell("read") { $0.unread = Int(state.unread) }
    case .wait(let event, let seconds):
      if await log.wait(for: event, atMost: .seconds(seconds)) { return true }
      // The phone was refused meanwhile, which is how it ends.
      guard !Task.isCancelled else { return false }
      tell("waitedInVain") { $0.text = event }
      ending = .waitedInVain
      return false
    case .help: for form in PhoneOrder.forms { tell("help") { $0.text = form } }
    case .quit, .nothing: break
    }
    return true
  }

  private func place(_ user: String, video: Bool) async throws {
    let call = try device.place(user, PlaceOptions(description: description, video: video))
    _ = number(call)
    // The call's end says why it was not placed.
    try? await call.placed()
  }

  private func pull(_ entry: Int) async throws {
    let ongoing = device.ongoing
    guard ongoing.indices.contains(entry - 1) else {
      throw PhoneProblem("There is no call \(entry) in the list of ongoing ones.")
    }
    if try await device.pull(ongoing[entry - 1], description: description) == nil {
      throw PhoneProblem("Another device was faster, or the call is over.")
    }
  }

  private func talking() throws(PhoneProblem) -> Call {
    try find(nil, "is answered") { $0.state == .answered || $0.state == .connected }
  }

  /// - Parameter number: the number of the call; nil: the newest that fits.
  private func find(
    _ number: Int?, _ what: String, _ fits: (Call) -> Bool
  ) throws(PhoneProblem) -> Call {
    let found = numbers.last { (number == nil || number == $0.number) && fits($0.call) }
    guard let found else {
      throw PhoneProblem(number.map { "No call \($0) \(what)." } ?? "No call \(what).")
    }
    return found.call
  }

  private func listOngoing() {
    for (index, call) in device.ongoing.enumerated() {
      tell("talks") {
        ($0.entry, $0.id, $0.peer) = (index + 1, call.call.description, call.peer)
        $0.device = call.deviceName.isEmpty ? call.device.text : call.deviceName
        $0.at = Double(call.since.milliseconds) / 1000
      }
    }
  }

  /// The most entries that the cluster gives at a time.
  private static let historyPageMax = 100

  private func listHistory(_ count: Int) async throws {
    var page = try await device.history(limit: min(count, Self.historyPageMax))
    var items = page.items
    while items.count < count, let before = page.next {
      page = try await device.history(
        before: before, limit: min(count - items.count, Self.historyPageMax))
      items += page.items
    }
    for (index, item) in items.prefix(count).enumerated() {
      let entry = item.entry
      tell(entry.isPlaced ? "placed call to" : "call of") {
        ($0.entry, $0.id, $0.peer) = (index + 1, entry.call.description, entry.peer)
        ($0.name, $0.reason) = (entry.peerName, entry.reason.name)
        $0.missed = entry.isMissed ? true : nil
        $0.at = Double(entry.placedAt.milliseconds) / 1000
      }
    }
    tell("unread") { $0.unread = Int(page.state.unread) }
  }
}

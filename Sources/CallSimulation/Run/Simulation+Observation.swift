internal import CallBus
package import CallClient
internal import CallCore
internal import CallJudge
package import CallWire

// The events that checkers, coverage and trace get to see.
extension Simulation {
  func observe() {
    nats.observers.appended.append { [unowned self] node, shard, record in
      guard let record = try? ClusterCodec.journalRecord(record.bytes) else { return }
      for entry in record.entries {
        world.note(
          "journal \(shard)", call: entry.call,
          "\(node.name) writes \(SimText.text(entry.change)) (\(record.epoch))")
      }
      let isUnreachable = record.entries.contains {
        if case .ended(let end) = $0.change { end.reason == .unreachable } else { false }
      }
      if isUnreachable {
        breakDead()
        giveUpLostEdges()
      }
      note(.journalled(shard: shard, record))
      coverage.journalled(shard, record)
      for entry in record.entries {
        if case .answered = entry.change { workload.answered(entry.call) }
      }
    }
    nats.observers.recorded.append { [unowned self] bytes in
      guard let batch = try? ClusterCodec.callRecords(bytes) else { return }
      for record in batch.records { world.note("records", call: record.call, "its record") }
      note(.recorded(batch.records))
    }
    nats.observers.remembered.append { [unowned self] user, number, bytes in
      guard let message = try? ClusterCodec.historyMessage(bytes) else { return }
      if case .entry(let entry) = message {
        world.note("history", call: entry.call, "an entry of \(Subjects.keyPart(user.user))")
      }
      note(.remembered(user, number, message))
    }
    nats.observers.keptForApps.append { [unowned self] _, bytes in
      guard let batch = try? ClusterCodec.appEvents(bytes) else { return }
      let events = batch.events.compactMap(\.self)
      for event in events { world.note("events", call: event.call, event.kind.type) }
      note(.learned(events))
    }
    nats.observers.appendStarted.append { [unowned self] _, shard, bytes in
      guard let record = try? ClusterCodec.journalRecord(bytes) else { return }
      coverage.appends(shard, record)
    }
    nats.observers.written.append { [unowned self] bucket, entry in
      guard bucket == SimOptions.registrationBucket else { return }
      if let user = SimOptions.user(rulesKey: entry.key) { return decided(user, entry.value) }
      guard let who = SimOptions.who(registrationKey: entry.key) else { return }
      world.note("store", "\(who) \(entry.value == nil ? "removed" : "registered")")
      note(.stored(who, present: entry.value != nil))
      let registration = entry.value.flatMap { try? ClusterCodec.registration($0) }
      if push != nil { note(.push(.registration(who, registration))) }
    }
    nats.observers.delivered.append { [unowned self] node, message in
      guard message.subject.isOfCommands,
        let batch = try? ClusterCodec.commandBatch(message.bytes)
      else { return }
      for command in batch.commands where command.request < SimRogueEdge.firstRequest {
        coverage.arrived(command)
        if push != nil { noteForPush(command) }
      }
    }
  }

  /// The store has other rules of a user.
  private func decided(_ user: String, _ value: [UInt8]?) {
    let rules = value.flatMap { try? ClusterCodec.rules($0).rules }
    world.note("store", "rules of \(Who(user, "")): \(rules.map(SimText.text) ?? "removed")")
    coverage.decided(user, rules)
    note(.decided(user: user, rules))
  }

  func note(_ event: HistoryEvent) {
    if options.hidesStores, !event.isOfDevices { return }
    if let violation = checker.note(event, at: world.now) { stop(violation) }
  }

  func stop(_ violation: HistoryViolation) {
    world.stop(violation.description, call: violation.call)
  }
}

extension Simulation: SimDeviceObserver {
  package func started(_ device: SimDevice) {
    coverage.restarted(device.who)
    note(.restarted(device.who))
  }

  package func told(_ device: SimDevice, _ event: ClientEvent) {
    world.note("\(device.who)", call: event.call, "app: \(SimText.text(event))")
    note(.told(device.who, event))
    workload.received(device, event)
  }

  package func newLink() -> Int {
    links += 1
    return links
  }

  package func opened(_ line: SimLine) {
    lines[line.number] = line
    note(.opened(line.who, link: line.number, edge: line.edge.name))
  }

  package func closed(_ line: SimLine) {
    lines[line.number] = nil
    note(.closed(link: line.number))
  }

  package func disturbed(_ line: SimLine) { note(.disturbed(link: line.number)) }

  package func sending(_ frame: ClientFrame, on line: SimLine) -> ClientFrame {
    var frame = frame
    if case .attach(var request) = frame.command {
      // The call that the client asks for by itself, pushed by a gateway, comes first.
      if request.forCall == nil { request.forCall = devices[line.who]?.takeWokenFor() }
      frame.command = .attach(request)
    }
    world.note("\(line.who)", call: frame.command.address?.call, SimText.text(frame, on: line))
    note(.sent(line.who, link: line.number, frame))
    if outages.isUnderWay { coverage.sentInOutage(frame) }
    coverage.sent(frame, on: line)
    return frame
  }

  package func receiving(_ frame: ServerFrame, on line: SimLine) -> ServerFrame {
    let frame = tampering?.receiving(frame) ?? frame
    world.note("\(line.who)", call: frame.call, SimText.text(frame, on: line))
    note(.received(line.who, link: line.number, frame))
    coverage.received(frame, on: line)
    return frame
  }
}

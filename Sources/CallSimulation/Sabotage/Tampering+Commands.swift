internal import CallBus
internal import CallCore
internal import CallJudge
internal import CallWire

/// Mistakes with what edges send to shards.
extension Tampering {
  func toShard(_ message: BusMessage) -> BusMessage? {
    guard message.subject.isOfCommands else { return message }
    var message = message
    message.bytes = Self.edit(message.bytes, ClusterCodec.commandBatch, ClusterCodec.encode, change)
    return message
  }

  private func change(_ batch: inout CommandBatch) {
    if sabotage == .appliedTwice, twice == .signal { repeatSignals(&batch) }
    batch.commands.removeAll { isHidden($0.body) }
    if sabotage == .signalsSwapped { swaps.apply(to: &batch) }
    if sabotage == .sessionForgotten { Self.forgetSessions(&batch) }
    if sabotage == .winnerBelievedBack { takeUpCalls(&batch) }
    for index in batch.commands.indices {
      let command = batch.commands[index]
      switch command.body {
      case .place(var request):
        callers[request.call] = command.session.number
        if sabotage == .chosenTimeIgnored { request.ringsAnew = true }
        if sabotage == .hookIgnored { request.forward = [] }
        if sabotage == .ringsTooLong, request.setup.ringTimeoutSeconds > 0 {
          request.setup.ringTimeoutSeconds += 4
        }
        batch.commands[index].body = .place(request)
      case .call(let call, .resume): callers[call] = command.session.number
      case .pushReport(let report):
        if sabotage == .staleGoneHonoured {
          batch.commands[index].body = .pushReport(Self.asIfNew(report))
        }
        if sabotage == .refusedTokenGone, case .tokenRefused = report.outcome {
          var gone = report
          gone.outcome = .tokenGone(at: nil)
          batch.commands[index].body = .pushReport(gone)
        }
      case .call(let call, .pull(var request)) where sabotage == .pullNotCompared:
        let holder = holders[call]?.first { $0.user.hasBytes(of: command.user.user) }
        guard let holder, holder.device != command.device else { continue }
        request.from = holder.device
        batch.commands[index].body = .call(call, .pull(request))
      case .visit(var request) where sabotage == .othersNotWanted:
        request.wantsOthers = false
        batch.commands[index].body = .visit(request)
      case .app(.place(var placing)) where sabotage == .placedForAnother:
        placing.caller = SimOptions.user(3)
        batch.commands[index].body = .app(.place(placing))
      case .app(.place(var placing)) where sabotage == .chosenDeviceIgnored:
        placing.device = nil
        batch.commands[index].body = .app(.place(placing))
      case .register where sabotage == .registrationUnfollowed:
        batch.commands[index].hasWebhooks = false
      case .history(.markRead) where sabotage == .readMarkIgnored:
        batch.commands[index].body = .history(.markRead(upTo: .start))
      case .call(let call, .transfer(var request)) where sabotage == .transferMisdirected:
        request.to = SimOptions.user(3)
        batch.commands[index].body = .call(call, .transfer(request))
      case .call(let call, .transfer(var request)) where sabotage == .otherDeviceRung:
        if request.consulted != nil { request.device = request.device == "d0" ? "d1" : "d0" }
        batch.commands[index].body = .call(call, .transfer(request))
      case .call(_, .transfer) where sabotage == .transferRepeated:
        let sent = Transferred(user: command.user, device: command.device, request: command.request)
        if !transferred.insert(sent).inserted { batch.commands[index].request += 1 << 32 }
      case .call(let call, .decline), .call(let call, .busy):
        guard sabotage == .lateDeclineEnds, let winner = winners[call],
          winner.device != command.device
        else { continue }
        batch.commands[index].device = winner.device
        batch.commands[index].body = .call(call, .hangUp)
        batch.commands[index].credential = credential(batch.commands[index])
      default: break
      }
    }
  }

  func noteHolder(_ entry: JournalEntry) {
    switch entry.change {
    case .placed(let facts): holders[entry.call] = [facts.caller]
    case .answered(let facts): holders[entry.call]?.insert(facts.by, at: 0)
    case .moved(let move):
      guard let index = holders[entry.call]?.firstIndex(where: { $0 == move.from }) else { return }
      holders[entry.call]?[index] = move.to
    default: break
    }
  }

  private func isHidden(_ body: Command.Body) -> Bool {
    switch body {
    case .call(_, .answer): sabotage == .answersIgnored
    case .crossed: sabotage == .crossingUnnoticed
    case .merge(let request):
      sabotage == .mergeNotAsked || (sabotage == .calledBackInVain && left.contains(request.call))
    case .visit: sabotage == .visitNotAsked || sabotage == .secondNotCalled
    case .replaced: sabotage == .consultedGoesOn
    case .talking(let talking):
      sabotage == .talkingNotTold || (sabotage == .endOfTalkNotTold && talking.calls.isEmpty)
    default: false
    }
  }

  private static func forgetSessions(_ batch: inout CommandBatch) {
    for var command in batch.commands {
      guard case .attach(let attach) = command.body, !attach.announce else { continue }
      command.request = 0
      command.body = .sessionClosed(graceful: true)
      batch.commands.append(command)
    }
  }

  /// As if each device that attaches took its calls up.
  private func takeUpCalls(_ batch: inout CommandBatch) {
    for var command in batch.commands {
      guard case .attach = command.body else { continue }
      command.request = 0
      for (call, parties) in holders.inOrder where parties.first?.device == command.device {
        command.body = .call(call, .resume)
        batch.commands.append(command)
      }
    }
  }

  private func repeatSignals(_ batch: inout CommandBatch) {
    for var command in batch.commands {
      guard case .call(_, .signal) = command.body else { continue }
      // Its reply is not awaited.
      command.request = 0
      batch.commands.append(command)
    }
  }

  static func withoutAnnouncements(
    _ message: OutgoingMessage, of isMeant: (DeviceID) -> Bool
  ) -> OutgoingMessage? {
    guard message.subject.isOfCommands else { return message }
    var message = message
    message.bytes = edit(message.bytes, ClusterCodec.commandBatch, ClusterCodec.encode) {
      $0.commands.removeAll { command in
        guard isMeant(command.device) else { return false }
        return switch command.body {
        case .attach(let attach): attach.announce
        case .call(_, .resume): command.request == 0
        default: false
        }
      }
    }
    return message
  }

  static func announcingPlacers(_ message: OutgoingMessage) -> OutgoingMessage? {
    changingAnnouncements(message) { $0.onlyPlaces = false }
  }

  static func announcingNoOngoing(_ message: OutgoingMessage) -> OutgoingMessage? {
    changingAnnouncements(message) { $0.ongoing = nil }
  }

  private static func changingAnnouncements(
    _ message: OutgoingMessage, _ change: (inout Attach) -> Void
  ) -> OutgoingMessage? {
    guard message.subject.isOfCommands else { return message }
    var message = message
    message.bytes = edit(message.bytes, ClusterCodec.commandBatch, ClusterCodec.encode) {
      for index in $0.commands.indices {
        guard case .attach(var attach) = $0.commands[index].body, attach.announce else { continue }
        change(&attach)
        $0.commands[index].body = .attach(attach)
      }
    }
    return message
  }
}

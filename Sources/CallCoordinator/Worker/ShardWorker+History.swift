internal import CallBus
internal import CallCore
internal import CallTelemetry
internal import CallWire
internal import Logging

/// Histories of users: entries leave for a stream of their own, and are read from there. A slow or missing stream
/// delays nothing else.
extension ShardWorker {
  func perform(_ effect: HistoryEffect, _ shard: HeldShard, now: Timestamp) {
    switch effect {
    case .store(let call):
      histories.add(HistoryOutbox.Item(term: shard.term, call: call))
      histories.compact { holding($0.term)?.machine.lacks(.history, of: $0.call) ?? false }
    case .answer(let session, let request, let user, let command):
      read(
        HistoryReads.Item(
          term: shard.term, user: user,
          question: .init(session: session, request: request, command: command)))
    case .read(let user, let mark):
      read(HistoryReads.Item(term: shard.term, user: user, storing: mark))
    case .show(let session, let state):
      metrics.deliveries.increment()
      outbox.add(session, .history(state))
    }
  }

  // MARK: Writing

  func sendHistories(now: Timestamp) {
    guard histories.nextDeadline <= now, let historyStream else { return }
    let messages = histories.next(now: now) {
      holding($0.term)?.machine.historyEntries(of: $0.call) ?? []
    }
    for message in messages {
      let (inbox, number) = (inbox, message.number)
      historyStream.add(
        message.user, id: message.id, ClusterCodec.encode(.entry(message.entry))
      ) { inbox.offer(.historyAdded(number, $0)) }
    }
  }

  func historyAdded(_ number: UInt64, _ result: AppendResult, now: Timestamp) {
    var isStored = false
    switch result {
    case .appended:
      isStored = true
      metrics.historyMessages.increment()
    case .refused: failedHistory("the stream refuses it", now: now)
    case .unknown(let reason): failedHistory(reason, now: now)
    }
    guard let message = histories.answered(number, isStored: isStored, now: now) else { return }
    if !notifyOfChange(message, now: now) { changeNotified(message.item, now: now) }
  }

  /// Notifies the shard of an entry's user that it is stored.
  /// - Returns: whether the answer is waited for.
  private func notifyOfChange(_ message: HistoryOutbox.Message, now: Timestamp) -> Bool {
    guard let shard = deciding(message.item.term) else { return false }
    if ShardHash.shard(of: message.user, count: configuration.shardCount) == shard.number {
      decide(shard, now: now) { $0.historyChanged(message.user, now: now, into: &$1) }
      return false
    }
    // If it cannot be asked, the user's sessions get the change with the next one, or when they attach.
    return ask(
      message.user, message.entry.device ?? "", .history(.changed), about: .history(message.item),
      until: now + .seconds(30), shard.term, now: now)
  }

  /// The shard of an entry's user knows that it is stored, or is no longer notified.
  ///
  /// The journal says that a call's entries are stored only after that. So a new owner, after a crash or a hand-over,
  /// stores the entries again and repeats notices that its predecessor may not have sent.
  func changeNotified(_ item: HistoryOutbox.Item, now: Timestamp) {
    guard histories.notified(item), let shard = deciding(item.term) else { return }
    decide(shard, now: now) { $0.stored(.history, of: [item.call], now: now, into: &$1) }
    touch(shard.number)
  }

  /// A shard, if this worker still decides for it. A new owner stores a call's entries again; the store, or the reader,
  /// drops the second ones.
  private func deciding(_ term: ShardTerm) -> HeldShard? {
    guard let shard = holding(term) else { return nil }
    if case .parting = shard.phase { return nil }
    return shard
  }

  private func failedHistory(_ reason: String, now: Timestamp) {
    metrics.historyMessagesFailed.increment()
    failedHistoryLogs.warn(
      logger, now: now, "Entries of histories could not be stored. They are kept and retried.",
      [.reason: "\(reason)"])
  }

  // MARK: Reading

  private func read(_ item: HistoryReads.Item) {
    if historyReads.add(item) { return beginReads() }
    metrics.historyQuestionsRefused.increment()
    answer(item, .error(CallError(.tryAgain, retryAfterMilliseconds: 1000)))
  }

  private func beginReads() {
    while let item = historyReads.next() { jobs.append(.readHistory(item)) }
  }

  nonisolated func readHistory(_ item: HistoryReads.Item) async {
    inbox.offer(.historyRead(item, await page(item)))
  }

  /// - Returns: nil: the history could not be read, or the mark not be stored.
  private nonisolated func page(_ item: HistoryReads.Item) async -> HistoryPage? {
    guard let historyStream, var log = try? await readLog(of: item.user, in: historyStream) else {
      return nil
    }
    if case .list(let before, let limit) = item.question?.command {
      let count = limit == 0 ? HistoryCommand.limitStandard : limit
      return log.page(before: before, limit: min(count, HistoryCommand.limits.upperBound))
    }
    if let mark = item.mark.flatMap({ log.mark(upTo: $0) }) {
      // Entries may have been stored before the mark since: without them the state would be none that there ever was.
      guard let place = await store(mark, of: item.user, in: historyStream),
        let marked = try? await readLog(of: item.user, in: historyStream), place <= marked.newest
      else { return nil }
      log = marked
    }
    return HistoryPage(state: log.state, readUpTo: log.readUpTo)
  }

  nonisolated func readLog(
    of user: UserKey, in stream: any HistoryStream
  ) async throws -> HistoryLog {
    let stored = try await stream.messages(of: user)
    // One of a later version is skipped, as everything that is not known.
    let messages = stored.compactMap { record in
      (try? ClusterCodec.historyMessage(record.bytes)).map {
        (cursor: HistoryCursor(record.sequence), message: $0)
      }
    }
    return HistoryLog(messages, entriesMax: configuration.history.entriesPerUser)
  }

  /// - Returns: where the mark stands; nil: it is not known to be stored.
  private nonisolated func store(
    _ mark: HistoryCursor, of user: UserKey, in stream: any HistoryStream
  ) async -> HistoryCursor? {
    let id = "\(Subjects.keyPart(user.app)).\(Subjects.keyPart(user.user)).\(mark.text)"
    let result = await withCheckedContinuation { continuation in
      stream.add(user, id: id, ClusterCodec.encode(.read(upTo: mark))) {
        continuation.resume(returning: $0)
      }
    }
    guard case .appended(let sequence) = result else { return nil }
    return HistoryCursor(sequence)
  }

  func historyRead(_ item: HistoryReads.Item, _ page: HistoryPage?, now: Timestamp) {
    historyReads.ended(item)
    beginReads()
    metrics.historyReads.increment()
    if page == nil { metrics.historyReadsFailed.increment() }
    guard let question = item.question else {
      guard let shard = deciding(item.term) else { return }
      decide(shard, now: now) { $0.historyRead(item.user, page?.state, now: now, into: &$1) }
      return touch(shard.number)
    }
    if case .markRead(let cursor) = question.command {
      // Only an owner shows the mark to the user's other sessions. The edge retransmits the command to the next one.
      guard let shard = deciding(item.term) else { return }
      decide(shard, now: now) {
        let openMark = page == nil ? cursor : nil
        $0.historyChanged(item.user, openMark: openMark, now: now, into: &$1)
      }
      touch(shard.number)
    }
    answer(item, page.map(Reply.history) ?? .error(CallError(.tryAgain)))
  }

  /// Sends a reply. Its content is in the store, whoever owns the shard by now.
  private func answer(_ item: HistoryReads.Item, _ reply: Reply) {
    guard let question = item.question else { return }
    metrics.replies.increment()
    outbox.add(question.session, .reply(request: question.request, reply))
  }
}

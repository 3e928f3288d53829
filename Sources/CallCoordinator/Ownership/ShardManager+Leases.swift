internal import CallBus
internal import CallCore
internal import CallTelemetry
internal import CallWire
internal import Logging

/// Starts claims and releases, and takes their results.
extension ShardManager {
  func leaseSeen(_ entry: KeyValueEntry, now: Timestamp) {
    guard let shard = Int(entry.key), shards.indices.contains(shard),
      entry.revision >= shards[shard].seenRevision
    else { return }
    shards[shard].seenRevision = entry.revision
    let former = shards[shard].record
    defer {
      let record = shards[shard].record
      if record.lease?.refusedBy != former.lease?.refusedBy { placeAnew(shard) }
      if former.unreadable != nil, record.unreadable == nil, case .stopped = shards[shard].hold {
        unstop(shard)
      }
    }
    guard let value = entry.value else {
      shards[shard].record = LeaseRecord()
      return
    }
    do {
      let lease = try ClusterCodec.lease(value)
      shards[shard].record = LeaseRecord(lease: lease, revision: entry.revision)
      if lease.owner != configuration.nodeID || lease.incarnation != incarnation {
        worker(of: shard).inbox.offer(.deposed(shard: shard, epoch: lease.epoch))
      }
    } catch {
      // A later version may have written it: it is not overwritten.
      shards[shard].record = LeaseRecord(
        unreadable: "\(error)", lease: nil, revision: entry.revision)
    }
  }

  // MARK: Starting

  func startClaim(_ shard: Int, now: Timestamp) {
    guard state == .serving, claimsRunning < configuration.recoveriesAtOnce,
      shards[shard].retryAt <= now, mayClaim(now: now)
    else { return }
    claimsRunning += 1
    shards[shard].hold = .claiming
    let record = shards[shard].record
    let lost = record.lease.flatMap { lease in
      lease.released
        ? nil : membership.lastSeen(ofLost: lease.owner, incarnation: lease.incarnation)
    }
    jobs.append(.claim(shard: shard, record, lostSince: lost))
  }

  func startRelease(_ shard: Int, deadline: Timestamp, now: Timestamp) {
    guard case .serving(let term, let revision) = shards[shard].hold,
      handovers.begin(term, isLeaving: state == .leaving, now: now)
    else { return }
    shards[shard].hold = .releasing(term)
    jobs.append(
      .release(
        term, leaseRevision: revision, refusedBy: shards[shard].record.lease?.refusedBy ?? [],
        deadline: deadline))
  }

  func startYield(_ shard: Int, now: Timestamp) {
    let record = shards[shard].record
    guard shards[shard].retryAt <= now, var lease = record.lease else { return }
    if case .stopped = shards[shard].hold { unstop(shard) }
    shards[shard].hold = .yielding
    lease.released = true
    jobs.append(.yield(shard: shard, lease, revision: record.revision))
  }

  // MARK: In child tasks

  nonisolated func perform(_ job: ShardManagerJob) async {
    switch job {
    case .probe(let probe): await self.probe(probe)
    case .claim(let shard, let record, let lostSince):
      let claim = ShardClaim(
        dependencies: dependencies, shard: shard, inbox: worker(of: shard).inbox,
        lostSince: lostSince, edges: { await self.edges })
      do throws(ShardClaim.Failure) {
        let claimed = try await claim.run(lease: record.lease, revision: record.revision)
        inbox.offer(.claimed(shard: shard, .success(claimed)))
      } catch {
        await refresh(shard)
        inbox.offer(.claimed(shard: shard, .failure(error)))
      }
    case .release(let term, let revision, let refusedBy, let deadline):
      let ok = await release(term, revision, refusedBy, deadline)
      inbox.offer(.released(shard: term.shard, ok))
    case .yield(let shard, let lease, let revision):
      _ = await dependencies.write(lease, of: shard, expecting: revision)
      await refresh(shard)
      inbox.offer(.yielded(shard: shard))
    }
  }

  /// First takes a checkpoint, while the shard still serves, so that its next owner has little to replay. Then has the
  /// worker part from the shard, and then releases the lease.
  private nonisolated func release(
    _ term: ShardTerm, _ revision: UInt64, _ refusedBy: [UInt64], _ deadline: Timestamp
  ) async -> Bool {
    let worker = worker(of: term.shard).inbox
    _ = await worker.ask { .checkpoint(term, done: $0) }
    guard await worker.ask({ .release(term, deadline: deadline, done: $0) }) else { return false }
    let lease = dependencies.lease(epoch: term.epoch, released: true, refusedBy: refusedBy)
    let result = await dependencies.write(lease, of: term.shard, expecting: revision)
    if case .appended(let revision) = result {
      let value = ClusterCodec.encode(lease)
      inbox.offer(.lease(KeyValueEntry(key: "\(term.shard)", value: value, revision: revision)))
    } else {
      logger.warning(
        "A shard was released, its lease could not be.",
        metadata: .keys([.shard: "\(term.shard)", .error: "\(result)"]))
      await refresh(term.shard)
    }
    return true
  }

  /// Reads a lease again, after a write of it was refused. The store may have been restored from a backup, and have an
  /// earlier one or none.
  private nonisolated func refresh(_ shard: Int) async {
    do {
      inbox.offer(.leaseRead(shard: shard, try await dependencies.leases.get("\(shard)")))
    } catch {
      // The next claim is refused as well, and reads it then.
    }
  }

  func leaseRead(_ shard: Int, _ entry: KeyValueEntry?, now: Timestamp) {
    shards[shard].seenRevision = 0
    leaseSeen(entry ?? KeyValueEntry(key: "\(shard)", value: nil, revision: 0), now: now)
  }

  // MARK: Results

  func claimed(_ shard: Int, _ result: Result<ClaimedShard, ShardClaim.Failure>, now: Timestamp) {
    claimsRunning -= 1
    shards[shard].retryAt = now + configuration.claimRetry
    shards[shard].hold = .none
    switch result {
    case .success(let claimed):
      unstop(shard)
      shards[shard].reported = nil
      if lostTerms.remove(claimed.term) != nil { return }
      shards[shard].hold = .serving(claimed.term, leaseRevision: claimed.leaseRevision)
    case .failure(.taken):
      unstop(shard)
      logger.debug("A shard was claimed by another.", metadata: .keys([.shard: "\(shard)"]))
    case .failure(.unavailable(let reason)):
      logger.warning(
        "A shard could not be claimed; it is tried again.",
        metadata: .keys([.shard: "\(shard)", .error: "\(reason)"]))
    case .failure(.unreadable(let what)):
      stop(shard, what, now: now)
    }
  }

  /// Stops a shard whose store this node cannot read. The other shards continue.
  func stop(_ shard: Int, _ what: ShardClaim.Unreadable, now: Timestamp) {
    shards[shard].hold = .stopped(what)
    shards[shard].retryAt = now + configuration.stoppedRetry
    if !shards[shard].isStopped { dependencies.metrics.shardsStopped.add(1) }
    shards[shard].isStopped = true
    // One line for all retries.
    guard shards[shard].reported != what else { return }
    shards[shard].reported = what
    logger.critical(
      """
      A shard is stopped: its store holds what this version cannot read. Its users cannot be called \
      until a node that can read it owns the shard, or it is repaired. docs/operations.md tells how.
      """, metadata: .keys([.shard: "\(shard)", .error: "\(what.text)"]))
  }

  func unstop(_ shard: Int) {
    if case .stopped = shards[shard].hold { shards[shard].hold = .none }
    guard shards[shard].isStopped else { return }
    shards[shard].isStopped = false
    dependencies.metrics.shardsStopped.add(-1)
  }

  func steppedDown(_ term: ShardTerm, now: Timestamp) {
    switch shards[term.shard].hold {
    case .serving(term, _):
      shards[term.shard].hold = .none
      shards[term.shard].retryAt = now + configuration.claimRetry
    case .claiming: lostTerms.insert(term)
    // A release under way learns it from the worker.
    case .none, .serving, .releasing, .yielding, .stopped: break
    }
  }

  func released(_ shard: Int, _ ok: Bool, now: Timestamp) {
    let isAwaited = ok && successorServes(shard)
    handovers.parted(shard, waitsUntil: isAwaited ? now + configuration.handoverTimeout : nil)
    shards[shard].hold = .none
    shards[shard].retryAt = now + configuration.claimRetry
    let entry: KeyValuePairs<LogKey, Logger.MetadataValue> = [.shard: "\(shard)"]
    if ok {
      logger.info("Shard released.", metadata: .keys(entry))
    } else {
      logger.warning("A shard was not released but lost.", metadata: .keys(entry))
    }
  }
}

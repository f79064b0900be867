-- told: tells those who wait for work_id that it is free; stands where one says told,
-- with WithNotifications, and adds nothing to the answer.
-- Listeners say for what they wait by shared advisory locks (mark.sql), which a lock
-- of ours cannot join. So where nobody waits this costs two locks in memory and no
-- NOTIFY, which takes one of the whole server at its commit. The first lock is the
-- transaction's: a listener that comes too late to be seen waits for its end. The
-- second is given back at once, since other leases share it: 64 for all of them, so that
-- two releases hardly ever take each other for a waiter. CASE keeps the order.
|| CASE
       WHEN CASE WHEN pg_try_advisory_xact_lock(2003792491, hashtext(work_id))
                 THEN CASE WHEN pg_try_advisory_lock(2003792492, hashtext(work_id) & 63)
                           THEN pg_advisory_unlock(2003792492, hashtext(work_id) & 63) END END
       THEN ''
       ELSE pg_notify(/*channel*/, work_id)::text
   END

-- forget: delete a lease, live or not.
-- in:   $1 'forget'  $2 work_id  $3 holder_id  $4 fencing_token
-- out:  one row when deleted; no row when fenced or gone (why.sql tells which)
DELETE FROM worklease_leases
WHERE $1::text = 'forget'
  AND work_id = $2 AND holder_id = $3 AND fencing_token = $4
RETURNING 'forget'/*told*/
